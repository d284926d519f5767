// The kernels of softmax_grad and log_softmax_grad of rows in the registers of a block or of a
// cluster of blocks, a chunk a warp. y and dy are read once, dx is written once. The chunks' sums
// are folds, combined as a tree of neighbours.
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

// Chunks of y and dy, in vectors or one by one, that a multiprocessor has registers for.
template <class In, int V>
inline constexpr int kGradWarps = 64 /
                                  static_cast<int>(V == 1 ? sizeof(compute_t<In>) : sizeof(In));

// A chunk a warp, the row in the registers of one block.
template <bool kLog, class In, class Out, class S, int kAxes = kKernelAxes>
__global__ void __launch_bounds__(kGradWarps<In, S::kVector>* kWarp)
    grad_block_kernel(const __grid_constant__ GradParams<In, Out, kAxes> params) {
  using F = compute_t<In>;
  __shared__ F sums[kGradWarps<In, S::kVector>];
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  const int chunk = threadIdx.x / kWarp, begin = chunk * kFoldChunk;
  const int left = static_cast<int>(params.rows.length) - begin;
  for (std::int64_t r = blockIdx.x; r < params.rows.rows; r += gridDim.x) {
    const RowStarts<3> starts = row_starts(params.rows.outer, r);
    const auto at = [&](int k) { return starts.of[k] + begin; };
    const S fragment(params.y + at(kY), left, lane);
    GradFragment<In, S> of_lane;
    of_lane.load(fragment, params.y + at(kY), 1, params.dy + at(kDy), 1);
    const F part = of_lane.template sum<kLog>();
    if (lane == 0) sums[chunk] = part;
    __syncthreads();
    const F sum = join_sums<1>(sums, warps);
    of_lane.template forget<kLog>();
    of_lane.template store<kLog, kLog>(fragment, params.dx + at(kDx), 1, sum, params.scale);
    if (r + gridDim.x < params.rows.rows) __syncthreads();  // before the next row's sums arrive
  }
}

// Whether chunks come by way of shared memory in clusters
// (docs/lab/softmax-grad-kernels.md#chunks-by-way-of-shared-memory).
template <bool kLog, class In, class S>
inline constexpr bool kGradBySmem = S::kUnaligned && (kLog || sizeof(In) != 2);

// The same with the blocks of a cluster.
template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kGradWarps<In, S::kVector>* kWarp)
    grad_cluster_kernel(const __grid_constant__ GradParams<In, Out> params, const ChunkPlan plan) {
  using F = compute_t<In>;
  using Sums = ClusterScope<F, F>;
  TWINOPS_DYNAMIC_SHARED(smem);
  Sums sums(smem, plan);
  const int chunk = Sums::block_of_row() * plan.warps + warp_of_all_lanes();
  const int begin = chunk * kFoldChunk, left = static_cast<int>(params.rows.length) - begin;
  const RowStarts<3> starts = row_starts(params.rows.outer, Sums::first_row());
  const auto at = [&](int k) { return starts.of[k] + begin; };
  const S fragment(params.y + at(kY), left, threadIdx.x % kWarp);
  GradFragment<In, S> of_lane;
  if constexpr (kGradBySmem<kLog, In, S>) {
    using Async = AsyncChunk<In, S>;
    unsigned char* const chunk_smem = smem + Sums::bytes(plan.chunks);
    const Async async_y(chunk_smem), async_dy(chunk_smem + Async::bytes(plan.warps));
    async_y.fetch(fragment, params.y + at(kY), params.y_end, left);
    async_dy.fetch(fragment, params.dy + at(kDy), params.dy_end, left);
    sums.begin();
    async_y.template take<false>(fragment, In{}, of_lane.y);
    async_dy.template take<false>(fragment, In{}, of_lane.dy);
    __syncwarp();  // else the compiler duplicates what follows
  } else {
    of_lane.load(fragment, params.y + at(kY), 1, params.dy + at(kDy), 1);
    sums.begin();
  }
  sums.publish(0, chunk, of_lane.template sum<kLog>());
  const F sum = sums.combine(0, join_sums<2, F>, [](F sum) { return sum; });
  of_lane.template forget<kLog>();
  of_lane.template store<kLog, kLog>(fragment, params.dx + at(kDx), 1, sum, params.scale);
  sums.leave();
}

}  // namespace twinops
