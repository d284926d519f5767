// The sum of each column of a matrix, in the order of numerics/fold.hpp over the rows.
#pragma once

#include <algorithm>

#include "kernels_cuda/launch.cuh"
#include "numerics/fold.hpp"
#include "operators/bias_dropout_residual_grad.hpp"
#include "operators/execution.hpp"

namespace twinops {

inline constexpr int kSumColumns = 32;  // of a block, by 32 threads that share a column

// The sum of each chunk, to `partial`; where there is one chunk, the answer, to `sums`.
template <class T>
__global__ void __launch_bounds__(1024)
    chunk_sums_kernel(const T* x, T* sums, compute_t<T>* partial, std::int64_t chunks,
                      std::int64_t rows, std::int64_t columns) {
  using F = compute_t<T>;
  constexpr int kRows = kFoldChunk / 32;  // of a thread
  __shared__ F shared[32][kSumColumns + 1];
  const int lane = threadIdx.x, part = threadIdx.y;
  const std::int64_t column = std::int64_t{blockIdx.x} * kSumColumns + lane;
  for (std::int64_t chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
    F v[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t row = chunk * kFoldChunk + k * 32 + part;
      v[k] = row < rows && column < columns ? widen(x[row * columns + column]) : F(0);
    }
#pragma unroll
    for (int half = kRows / 2; half > 0; half /= 2)
#pragma unroll
      for (int k = 0; k < half; ++k) v[k] = v[k] + v[k + half];
    shared[part][lane] = v[0];
    for (int half = 16; half > 0; half /= 2) {
      __syncthreads();
      if (part < half) shared[part][lane] = shared[part][lane] + shared[part + half][lane];
    }
    if (part == 0 && column < columns) {
      if (chunks > 1) {
        partial[chunk * columns + column] = shared[0][lane];
      } else {
        ChunkTree<F> tree;
        tree.add(shared[0][lane]);
        sums[column] = narrow<T>(tree.total());
      }
    }
    __syncthreads();  // the next chunk writes to shared memory
  }
}

template <class T>
__global__ void tree_sums_kernel(const compute_t<T>* partial, T* sums, std::int64_t chunks,
                                 std::int64_t columns) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  ChunkTree<compute_t<T>> tree;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) tree.add(partial[chunk * columns + column]);
  sums[column] = narrow<T>(tree.total());
}

inline void column_sums_on_cuda(const ColumnSums& s, std::int64_t chunks, void* scratch,
                                Execution& execution) {
  const CurrentDevice current(execution.device.index);
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
    auto* sums = static_cast<T*>(s.sums);
    auto* partial = static_cast<compute_t<T>*>(scratch);
    const auto column_blocks = static_cast<unsigned>((s.columns + kSumColumns - 1) / kSumColumns);
    if (chunks > 0) {
      const auto chunk_blocks = static_cast<unsigned>(std::min<std::int64_t>(chunks, 65535));
      chunk_sums_kernel<T><<<dim3(column_blocks, chunk_blocks), dim3(32, 32), 0, stream>>>(
          static_cast<const T*>(s.x), sums, partial, chunks, s.rows, s.columns);
      ++execution.launches;
    }
    if (chunks != 1) {
      tree_sums_kernel<T><<<static_cast<unsigned>((s.columns + 127) / 128), 128, 0, stream>>>(
          partial, sums, chunks, s.columns);
      ++execution.launches;
    }
  });
  check(cudaGetLastError(), "launch of column sums");
}

}  // namespace twinops
