#include <vector>

#include "kernels_cpu/dropout/dropout_reference.hpp"
#include "kernels_cpu/kernel.hpp"
#include "numerics/fold.hpp"
#include "operators/bias_dropout_residual_grad.hpp"

namespace twinops {

template <>
void run_reference<BiasDropoutResidualGrad>(const BiasDropoutResidualGrad::Arguments& arguments,
                                            Execution& execution) {
  reference_dropout(arguments.dropout, execution);
  const ColumnSums& s = arguments.dbias;
  if (s.sums == nullptr) return;
  with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
    std::vector<compute_t<T>> column(static_cast<std::size_t>(s.rows));
    for (std::int64_t c = 0; c < s.columns; ++c) {
      for (std::int64_t row = 0; row < s.rows; ++row)
        column[static_cast<std::size_t>(row)] =
            widen(static_cast<const T*>(s.x)[s.row_start(row) + s.column_start(c)]);
      static_cast<T*>(s.sums)[c] = narrow<T>(folded_sum(column.data(), s.rows));
    }
  });
}

}  // namespace twinops
