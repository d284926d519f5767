// The kernel of softmax_grad and log_softmax_grad with two chunks a warp, where a cluster has
// registers for half of a row only. The first chunk waits in shared memory as it was copied there,
// until the row's sum is known; the second, prefetched to L2 meanwhile, stays in registers. y and
// dy are read once, dx is written once. A cluster has one row, as in pair_kernel.cuh. What was
// measured and tried: docs/lab/softmax-grad-kernels.md#two-chunks-a-warp.
#pragma once

#include "kernels_cuda/softmax/grad_block_kernel.cuh"

namespace twinops {

template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kGradWarps<In, S::kVector>* kWarp)
    grad_pair_kernel(const __grid_constant__ GradParams<In, Out> params,
                     const __grid_constant__ ChunkPlan plan) {
  using F = compute_t<In>;
  using Async = AsyncChunk<In, S>;
  TWINOPS_DYNAMIC_SHARED(smem);
  ClusterScope<F, F> sums(smem, plan);
  unsigned char* const chunk_smem = smem + sums.bytes(plan.chunks);
  const Async async_y(chunk_smem), async_dy(chunk_smem + Async::bytes(plan.warps));
  const int length = static_cast<int>(params.rows.length);
  const int first = sums.block_of_row() * 2 * plan.warps + warp_of_all_lanes();
  const auto chunk_of = [&](int half) { return first + half * plan.warps; };
  const auto left_of = [&](int half) { return length - chunk_of(half) * kFoldChunk; };
  const auto at = [&](int half) {  // the row's chunk, of each operand
    RowStarts<3> starts = row_starts(params.rows.outer, sums.first_row());
#pragma unroll
    for (int k = 0; k < 3; ++k) starts.of[k] += chunk_of(half) * kFoldChunk;
    return starts;
  };
  const auto fragment_of = [&](const RowStarts<3>& starts, int half) {
    const int lane = S::kUnaligned ? reload_lane() : threadIdx.x % kWarp;
    return S(params.y + starts.of[kY], left_of(half), lane);
  };
  {
    const RowStarts<3> starts = at(0);
    const S fragment = fragment_of(starts, 0);
    async_y.fetch(fragment, params.y + starts.of[kY], params.y_end, left_of(0));
    async_dy.fetch(fragment, params.dy + starts.of[kDy], params.dy_end, left_of(0));
  }
  {
    const RowStarts<3> starts = at(1);
    prefetch_to_l2(params.y + starts.of[kY], left_of(1));
    prefetch_to_l2(params.dy + starts.of[kDy], left_of(1));
  }
  sums.begin();
  GradFragment<In, S> of_lane;
  const auto take = [&](const S& fragment) {
    async_y.template take<false>(fragment, In{}, of_lane.y);
    async_dy.template take<false>(fragment, In{}, of_lane.dy);
  };
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    const RowStarts<3> starts = at(half);
    const S fragment = fragment_of(starts, half);
    half == 0 ? take(fragment)
              : of_lane.load(fragment, params.y + starts.of[kY], 1, params.dy + starts.of[kDy], 1);
    if constexpr (S::kUnaligned) __syncwarp();  // else the compiler writes what follows twice
    sums.publish(0, chunk_of(half), of_lane.template sum<kLog>());
  }
  const F sum = sums.combine(0, join_sums<2, F>, [](F sum) { return sum; });
  of_lane.template forget<kLog>();
#pragma unroll 1
  for (int half = 1; half >= 0; --half) {
    const RowStarts<3> starts = at(half);
    const S fragment = fragment_of(starts, half);
    if (half == 0) take(fragment);
    constexpr bool kInOrder = false, kRecompute = true;
    of_lane.template store<kLog, kInOrder, kRecompute>(fragment, params.dx + starts.of[kDx], 1, sum,
                                                       params.scale);
  }
  sums.leave();
}

}  // namespace twinops
