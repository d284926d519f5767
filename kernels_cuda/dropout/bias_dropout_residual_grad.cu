// The backward pass of bias_dropout_residual: dx as dropout_grad makes it, and dbias from the
// stored dx.
//
// Where dx can take the contiguous kernel, one pass makes both (bias_grad_kernel.cuh). Otherwise
// column_sums.cuh reads dx once more, most of it from the cache.
#include "kernels_cuda/dropout/bias_grad_kernel.cuh"
#include "operators/dropout_grad.hpp"

namespace twinops {

template <>
void run_cuda<BiasDropoutResidualGrad>(const BiasDropoutResidualGrad::Arguments& arguments,
                                       Execution& execution) {
  const ColumnSums& s = arguments.dbias;
  const std::int64_t chunks = (s.rows + kFoldChunk - 1) / kFoldChunk;
  const bool scratch = s.sums != nullptr && chunks > 1;
  const std::size_t sum_bytes = s.type == Type::float64 ? sizeof(double) : sizeof(float);
  const Workspace workspace(execution,
                            scratch ? static_cast<std::size_t>(chunks * s.columns) * sum_bytes : 0);
  if (fits_bias_grad_kernel(arguments.dropout, s, execution.device.index)) {
    bias_grad_on_cuda(arguments.dropout, s, chunks, workspace.data(), execution);
    return;
  }
  run_cuda<DropoutGrad>(arguments.dropout, execution);
  if (s.sums != nullptr) column_sums_on_cuda(s, chunks, workspace.data(), execution);
}

}  // namespace twinops
