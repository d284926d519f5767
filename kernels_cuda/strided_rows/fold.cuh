// Folds and maxima over strided rows: over registers, lanes and warps of a chunk, and over a row's
// chunks, in one block or in a cluster.
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/strided_rows/lanes.cuh"

namespace twinops {

// The fold over registers of what term(k, s) gives for register k. By halves of the power of two
// that K is or would be, the top bit of the index first, as a recursion that keeps few sums at a
// time.
template <int K, int V, int k = 0, int kCount = 1, class F, class Term>
__device__ __forceinline__ void fold_registers(F (&s)[V], Term&& term) {
  if constexpr (kCount >= K) {
    term(k, s);
  } else {
    fold_registers<K, V, k, 2 * kCount>(s, term);
    if constexpr (k + kCount < K) {
      F upper[V];
      fold_registers<K, V, k + kCount, 2 * kCount>(upper, term);
#pragma unroll
      for (int v = 0; v < V; ++v) s[v] = s[v] + upper[v];
    }
  }
}

// Shared memory of the warps that share a chunk: what each warp has of every row, and what they
// have together.
template <class F>
struct StridedSmem {
  F* of_warps;  // [row][warp], with one place more a row, for the banks
  F* joined;    // [row]
};

// Joins what the lanes of a warp have of the same rows: the upper half of the places to the lower
// one, and so on.
template <int N, class X, class Join>
__device__ __forceinline__ void join_strided_lanes(const StridedPlan& plan, X (&values)[N],
                                                   Join&& join) {
#pragma unroll 1
  for (int mask = kWarp / 2; mask >= plan.lanes(); mask /= 2)
#pragma unroll
    for (X& x : values) x = join(x, __shfl_xor_sync(kAllLanes, x, mask));
}
// Then joins what warps have. Every thread has `finish` of the result, which one thread computes
// for all that hold the row: finish.of_row(row's number in the tile, joined), or
// finish.by_lanes(joined) where a warp holds all of it. kExpensive: finish is long, and one thread
// a row computes it after a barrier. All threads of the block.
template <int V, class F, class Join, class Finish>
__device__ __forceinline__ void join_strided_warps(const StridedPlan& plan,
                                                   const StridedPlace<V>& of, StridedSmem<F> shared,
                                                   F (&v)[V], Join&& join, Finish&& finish) {
  constexpr bool kExpensive = std::remove_cvref_t<Finish>::kExpensive;
  if (plan.warps_log == 0) return finish.by_lanes(v);
  const int warps = plan.warps(), rows = plan.lanes() * V, pitch = warps + 1;
  if (of.place == 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) shared.of_warps[(of.side * V + e) * pitch + of.warp] = v[e];
  }
  __syncthreads();
#pragma unroll 1
  for (int i = of.warp * kWarp; i < rows * warps; i += warps * kWarp) {
    const int j = i + static_cast<int>(threadIdx.x) % kWarp, row = j >> plan.warps_log;
    F x = F(0);
    if (row < rows) x = shared.of_warps[row * pitch + (j & (warps - 1))];
#pragma unroll 1
    for (int mask = warps / 2; mask > 0; mask /= 2)
      x = join(x, __shfl_xor_sync(kAllLanes, x, mask));
    if ((j & (warps - 1)) == 0 && row < rows)
      shared.joined[row] = kExpensive ? x : finish.of_row(row, x);
  }
  __syncthreads();
  if constexpr (kExpensive) {
    for (int row = threadIdx.x; row < rows; row += blockDim.x)
      shared.joined[row] = finish.of_row(row, shared.joined[row]);
    __syncthreads();
  }
#pragma unroll
  for (int e = 0; e < V; ++e) v[e] = shared.joined[of.side * V + e];
}

// For join_strided_warps(): the joined values as they are.
struct NoFinish {
  static constexpr bool kExpensive = false;
  template <class F, int V>
  __device__ __forceinline__ void by_lanes(F (&)[V]) const {}
  template <class F>
  __device__ __forceinline__ F of_row(int, F x) const {
    return x;
  }
};

// Parts of chunks go to every block of the cluster. arrive_strided() comes once before, as early as
// it can, so that all blocks are known to run.
__device__ __forceinline__ void arrive_strided(const StridedPlan& plan) {
#if __CUDA_ARCH__ >= 900
  if (plan.blocks > 1) cluster_arrive_relaxed();
#endif
}
__device__ __forceinline__ void wait_strided(const StridedPlan& plan) {
#if __CUDA_ARCH__ >= 900
  if (plan.blocks > 1) cluster_wait();
#endif
}
template <class Part>
__device__ __forceinline__ void send_strided(const StridedPlan& plan, Part* place, Part part) {
#if __CUDA_ARCH__ >= 900
  if (plan.blocks > 1) {
#pragma unroll 1
    for (int block = 0; block < plan.blocks; ++block) *in_block_of_cluster(place, block) = part;
    return;
  }
#endif
  *place = part;
}

// Joins the parts of the tile's rows, a row a warp, once they are in shared memory; up to kWarp *
// kWarp chunks. of_chunk(row, chunk) is a part, join(a part of each lane) joins them, take(row,
// joined) takes the result.
template <class Part, class OfChunk, class Join, class Take>
__device__ __forceinline__ void join_strided_chunks(const StridedPlan& plan, int rows,
                                                    OfChunk&& of_chunk, Join&& join, Take&& take) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / kWarp; row < rows;
       row += static_cast<int>(blockDim.x) / kWarp) {
    Part of_group{};
#pragma unroll 1
    for (int first = 0; first < plan.chunks; first += kWarp) {
      const int chunk = first + lane;
      const Part part = join(chunk < plan.chunks ? of_chunk(row, chunk) : Part{});
      if (lane == first / kWarp) of_group = part;
    }
    if (plan.chunks > kWarp) of_group = join(of_group);
    if (lane == 0) take(row, of_group);
  }
}

}  // namespace twinops
