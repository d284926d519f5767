// The backward passes of softmax and log_softmax. docs/operators/softmax_grad.md.
#pragma once

#include "operators/softmax_rows.hpp"

namespace twinops {

struct SoftmaxGradArguments {
  const void* y;
  const void* dy;
  void* dx;
  TypePair types;  // of y and dy, of dx
  Rows<3> rows;    // operand 0 is dx, operand 1 is y, operand 2 is dy
};

struct SoftmaxGrad {
  static constexpr bool kLog = false;
  static const OperatorInfo info;
  using Arguments = SoftmaxGradArguments;
  static Arguments parse(const Call& call);
};

struct LogSoftmaxGrad {
  static constexpr bool kLog = true;
  static const OperatorInfo info;
  using Arguments = SoftmaxGradArguments;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
