// softmax, then dropout, as one. docs/operators/softmax_dropout.md.
#pragma once

#include "operators/dropout_work.hpp"
#include "operators/softmax.hpp"

namespace twinops {

struct SoftmaxDropoutArguments {
  // Its `out` is what dropout is taken of: probabilities, or y where those are not kept.
  SoftmaxArguments softmax;
  bool keeps_probabilities;
  DropoutWork dropout;  // from softmax.out to y

  // Where a row's y lies, and the logical index of its elements: of the same rows in the same order
  // as softmax's.
  enum Operand { kY, kLogical };
  Layout<2> outer;
  std::int64_t step[2];
};

struct SoftmaxDropout {
  static const OperatorInfo info;
  using Arguments = SoftmaxDropoutArguments;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
