// The backward pass of bias_dropout_residual: dx as dropout_grad, then dbias from the stored dx.
//
// dbias, order: chunks of 1024 rows, folded in half; a thread holds 32 rows of a column, every 32nd
// of the chunk, so it folds the index's top five bits in registers and the block the rest in shared
// memory. Memory: dx is read once more, most of it from the cache; a sum for each chunk and column
// goes through scratch memory where there is more than one chunk.
#include "kernels_cuda/column_sums.cuh"
#include "kernels_cuda/dropout.cuh"
#include "operators/bias_dropout_residual_grad.hpp"

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
  dropout_on_cuda<false, false>(arguments.dropout, execution);
  if (s.sums != nullptr) column_sums_on_cuda(s, chunks, workspace.data(), execution);
}

}  // namespace twinops
