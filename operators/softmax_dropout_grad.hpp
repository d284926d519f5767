// The backward pass of softmax_dropout. docs/operators/softmax_dropout_grad.md.
#pragma once

#include "operators/dropout_work.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

struct SoftmaxDropoutGradArguments {
  SoftmaxGradArguments softmax;  // its dy is not yet dropped out
  // From dy to dx, which is then softmax_grad's dy; where dx is of another type, to memory of a
  // kernel's own (y is NULL), row-major, in dy's type.
  DropoutWork dropout;

  // The logical index of a row's elements: of the same rows in the same order as softmax's.
  Layout<1> outer;
  std::int64_t step;
};

struct SoftmaxDropoutGrad {
  static const OperatorInfo info;
  using Arguments = SoftmaxDropoutGradArguments;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
