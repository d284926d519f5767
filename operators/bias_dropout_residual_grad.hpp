// bias_dropout_residual_grad, the backward pass of bias_dropout_residual.
// docs/operators/bias_dropout_residual_grad.md.
#pragma once

#include "operators/dropout_work.hpp"

namespace twinops {

// The sum of each column of a matrix without gaps, in the order of numerics/fold.hpp over the rows.
struct ColumnSums {
  Type type;
  const void* x;  // rows x columns
  void* sums;     // columns; nullptr: not asked for
  std::int64_t rows, columns;
};

struct BiasDropoutResidualGrad {
  static const OperatorInfo info;
  struct Arguments {
    DropoutWork dropout;
    ColumnSums dbias;  // of dx, as stored
  };
  static Arguments parse(const Call& call);
};

}  // namespace twinops
