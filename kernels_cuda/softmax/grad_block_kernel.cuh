// The kernels of softmax_grad and log_softmax_grad of rows in the registers of a block or of a
// cluster of blocks, a chunk a warp. y and dy are read once, dx is written once. The chunks' sums
// are folds, combined as a tree of neighbours.
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/softmax/softmax_grad_remainder.cuh"

namespace twinops {

// Chunks of y and dy, in vectors or one by one, that a multiprocessor has registers for.
template <class In, int V>
inline constexpr int kGradWarps = 64 /
                                  static_cast<int>(V == 1 ? sizeof(compute_t<In>) : sizeof(In));

// What a warp of a block that has rows does. S: the fragment of its chunk. kWhole: the compiler
// knows that the whole chunk is the row's. RemainderFragment: of a remainder that is appended.
template <bool kLog, class S, Remainder kRemainder, bool kWhole, class RemainderFragment, class In,
          class Out, int kAxes>
__device__ __forceinline__ void take_grad_rows(const GradParams<In, Out, kAxes>& params, int chunk,
                                               compute_t<In>* sums) {
  using F = compute_t<In>;
  constexpr int V = S::kVector;
  constexpr bool kAppended = kRemainder == Remainder::appended;
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp, begin = chunk * kFoldChunk;
  const int rest = static_cast<int>(params.rows.length) - begin, left = kWhole ? kFoldChunk : rest;
  const std::int64_t* const step = params.rows.step;
  RemainderIf<kAppended, GradRemainder<In, RemainderFragment>> remainder(rest - kFoldChunk, lane,
                                                                         chunk == warps - 1);
  for (std::int64_t r = blockIdx.x; r < params.rows.rows; r += gridDim.x) {
    const RowStarts<3> starts = row_starts(params.rows.outer, r);
    const auto at = [&](int k) { return starts.of[k] + begin * (V == 1 ? step[k] : 1); };
    const S fragment(params.y + at(kY), left, lane);
    GradFragment<In, S> of_lane;
    remainder.load(params.y + at(kY) + kFoldChunk, params.dy + at(kDy) + kFoldChunk);
    of_lane.load(fragment, params.y + at(kY), step[kY], params.dy + at(kDy), step[kDy]);
    const F part = of_lane.template sum<kLog>();
    if (lane == 0) sums[chunk] = part;
    remainder.template publish<kLog>(sums + warps);
    sync_row<kRemainder>();
    const F sum = join_sums<1>(sums, warps + kAppended);
    of_lane.template forget<kLog>();
    of_lane.template store<kLog, kLog>(fragment, params.dx + at(kDx), step[kDx], sum, params.scale);
    remainder.template store<kLog>(params.dx + at(kDx) + kFoldChunk, sum, params.scale);
    if (r + gridDim.x < params.rows.rows)
      sync_row<kRemainder>();  // before the next row's sums arrive
  }
}

// A chunk a warp, the row in the registers of one block. LastFragment: of the remainder, where that
// is not taken as the other chunks are.
template <bool kLog, class In, class Out, class S, Remainder kRemainder = Remainder::vectors,
          class LastFragment = S, int kAxes = kKernelAxes>
__global__ void __launch_bounds__(kGradWarps<In, S::kVector>* kWarp)
    grad_block_kernel(const __grid_constant__ GradParams<In, Out, kAxes> params) {
  constexpr bool kAppended = kRemainder == Remainder::appended;
  __shared__ compute_t<In> sums[kGradWarps<In, S::kVector> + kAppended];
  if constexpr (kRemainder != Remainder::own_warp) {
    take_grad_rows<kLog, S, kRemainder, false, LastFragment>(params, threadIdx.x / kWarp, sums);
  } else {
    const int chunk = warp_of_all_lanes();
    if (is_last_warp(chunk))
      take_grad_rows<kLog, LastFragment, kRemainder, false, LastFragment>(params, chunk, sums);
    else
      take_grad_rows<kLog, S, kRemainder, true, LastFragment>(params, chunk, sums);
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
  const std::int64_t* const step = params.rows.step;
  const RowStarts<3> starts = row_starts(params.rows.outer, Sums::first_row());
  const auto at = [&](int k) { return starts.of[k] + begin * (S::kVector == 1 ? step[k] : 1); };
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
    of_lane.load(fragment, params.y + at(kY), step[kY], params.dy + at(kDy), step[kDy]);
    sums.begin();
  }
  sums.publish(0, chunk, of_lane.template sum<kLog>());
  const F sum = sums.combine(0, join_sums<2, F>, [](F sum) { return sum; });
  of_lane.template forget<kLog>();
  of_lane.template store<kLog, kLog>(fragment, params.dx + at(kDx), step[kDx], sum, params.scale);
  sums.leave();
}

}  // namespace twinops
