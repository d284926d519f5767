// dropout_grad, the backward pass of dropout. docs/operators/dropout_grad.md.
#pragma once

#include "operators/dropout_work.hpp"

namespace twinops {

struct DropoutGrad {
  static const OperatorInfo info;
  using Arguments = DropoutWork;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
