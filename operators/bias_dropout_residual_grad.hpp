// bias_dropout_residual_grad, the backward pass of bias_dropout_residual.
// docs/operators/bias_dropout_residual_grad.md.
#pragma once

#include "operators/dropout_work.hpp"

namespace twinops {

// Sums of a tensor x without gaps over some of its axes, in the order of numerics/fold.hpp over
// those axes' elements, row-major: the columns of a matrix, or of what lies as one under two groups
// of axes that are summed, rows[0] and rows[1]. x: [columns[0], rows[0], columns[1], rows[1],
// columns[2]].
struct ColumnSums {
  Type type;
  const void* x;
  void* sums;  // one for each column, row-major; nullptr: not asked for
  std::int64_t rows, columns;
  std::int64_t of_rows[2], of_columns[3];

  bool is_matrix() const { return of_columns[0] == 1 && of_rows[1] == 1; }
  // Where element r of column c is, as the sum of both.
  TWINOPS_INLINE std::int64_t row_start(std::int64_t r) const {
    const std::int64_t step = of_columns[1] * of_rows[1] * of_columns[2];
    if (of_rows[1] == 1) return r * step;
    return r / of_rows[1] * step + r % of_rows[1] * of_columns[2];
  }
  TWINOPS_INLINE std::int64_t column_start(std::int64_t c) const {
    const std::int64_t inner = c % of_columns[2], outer = c / of_columns[2];
    return ((outer / of_columns[1] * of_rows[0] * of_columns[1] + outer % of_columns[1]) *
            of_rows[1]) *
               of_columns[2] +
           inner;
  }
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
