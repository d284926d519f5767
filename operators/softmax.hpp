// softmax and log_softmax over one axis. docs/operators/softmax.md, docs/operators/log_softmax.md.
#pragma once

#include "operators/softmax_rows.hpp"

namespace twinops {

struct SoftmaxArguments {
  const void* x;
  void* out;
  TypePair types;       // of x, of out
  Rows<2> rows;         // operand 0 is out, operand 1 is x
  bool masked_is_zero;  // a row of nothing but -infinity: probabilities 0, not NaN
};

struct Softmax {
  static constexpr bool kLog = false;
  static const OperatorInfo info;
  using Arguments = SoftmaxArguments;
  static Arguments parse(const Call& call);
};

struct LogSoftmax {
  static constexpr bool kLog = true;
  static const OperatorInfo info;
  using Arguments = SoftmaxArguments;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
