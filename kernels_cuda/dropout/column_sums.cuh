// The sum of each column of a matrix, over the rows in the order of numerics/fold.hpp.
//
// Memory: the matrix is read once. Sums of chunks of 1024 rows go through scratch memory where
// there is more than one. Order: a thread has 32 rows of a column, 32 apart, and folds the top five
// bits of a row's index in registers; the block folds the rest in shared memory.
#pragma once

#include <algorithm>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/runtime/architecture.hpp"
#include "numerics/fold.hpp"
#include "operators/bias_dropout_residual_grad.hpp"
#include "operators/execution.hpp"

namespace twinops {

inline constexpr int kSumColumns = 32;  // of a block; 32 threads share a column

// Writes the sum of each chunk to `partial`, or, where there is one chunk, the answer to `sums`.
template <class T>
__global__ void __launch_bounds__(1024)
    chunk_sums_kernel(const __grid_constant__ ColumnSums s, compute_t<T>* partial,
                      std::int64_t chunks) {
  using F = compute_t<T>;
  constexpr int kRows = kFoldChunk / 32;  // of a thread
  __shared__ F shared[32][kSumColumns + 1];
  const int lane = threadIdx.x, part = threadIdx.y;
  const std::int64_t column = std::int64_t{blockIdx.x} * kSumColumns + lane;
  const std::int64_t rows = s.rows, columns = s.columns;
  const T* const x = static_cast<const T*>(s.x) + s.column_start(column);
  T* const sums = static_cast<T*>(s.sums);
  for (std::int64_t chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
    F v[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t row = chunk * kFoldChunk + k * 32 + part;
      v[k] = row < rows && column < columns ? widen(x[s.row_start(row)]) : F(0);
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

// The fold of sixteen values.
template <class F>
__device__ __forceinline__ F fold_sixteen(const F (&s)[16]) {
  F v[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) v[j] = s[j] + s[j + 8];
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// Adds the sums of chunks. `partial` is written by the kernel before it on the stream.
inline constexpr int kTreeThreads = 64, kTreeInFlight = 16;
template <class T>
__global__ void __launch_bounds__(kTreeThreads)
    tree_sums_kernel(const compute_t<T>* partial, T* sums, std::int64_t chunks,
                     std::int64_t columns) {
  using F = compute_t<T>;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  const std::int64_t column = std::int64_t{blockIdx.x} * kTreeThreads + threadIdx.x;
  if (column >= columns) return;
  ChunkTree<F> tree;  // of subtrees of sixteen chunks
  for (std::int64_t chunk = 0; chunk < chunks; chunk += kTreeInFlight) {
    F v[kTreeInFlight];
#pragma unroll
    for (int k = 0; k < kTreeInFlight; ++k)
      v[k] = chunk + k < chunks ? partial[(chunk + k) * columns + column] : F(0);
#pragma unroll
    for (int step = 1; step < kTreeInFlight; step *= 2)
#pragma unroll
      for (int k = 0; k < kTreeInFlight; k += 2 * step) v[k] = v[k] + v[k + step];
    tree.add(v[0]);
  }
  sums[column] = narrow<T>(tree.total());
}

template <class T>
void launch_tree_sums(const ColumnSums& s, std::int64_t chunks, const void* partial,
                      Execution& execution) {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attribute{};
  config.gridDim = dim3(static_cast<unsigned>((s.columns + kTreeThreads - 1) / kTreeThreads));
  config.blockDim = dim3(kTreeThreads);
  config.stream = static_cast<cudaStream_t>(execution.stream);
  // The launch does not wait for the kernel before it; tree_sums_kernel itself does.
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = code_architecture(execution.device.index) >= 90 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, tree_sums_kernel<T>, static_cast<const compute_t<T>*>(partial),
                           static_cast<T*>(s.sums), chunks, s.columns),
        "launch of column sums");
  ++execution.launches;
}

inline void column_sums_on_cuda(const ColumnSums& s, std::int64_t chunks, void* scratch,
                                Execution& execution) {
  const CurrentDevice current(execution.device.index);
  with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
    auto* partial = static_cast<compute_t<T>*>(scratch);
    const auto column_blocks = static_cast<unsigned>((s.columns + kSumColumns - 1) / kSumColumns);
    if (chunks > 0) {
      const auto chunk_blocks = static_cast<unsigned>(std::min<std::int64_t>(chunks, 65535));
      launch_grid("launch of column sums", chunk_sums_kernel<T>, dim3(column_blocks, chunk_blocks),
                  dim3(32, 32), 0, execution.stream, s, partial, chunks);
      ++execution.launches;
    }
    if (chunks != 1) launch_tree_sums<T>(s, chunks, partial, execution);
  });
}

}  // namespace twinops
