// bias_dropout_residual, y = dropout(x + bias) + residual. docs/operators/bias_dropout_residual.md.
#pragma once

#include "operators/dropout_work.hpp"

namespace twinops {

struct BiasDropoutResidual {
  static const OperatorInfo info;
  using Arguments = DropoutWork;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
