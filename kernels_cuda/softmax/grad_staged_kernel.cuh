// The kernel of softmax_grad and log_softmax_grad of short unaligned rows that lie side by side, by
// way of shared memory (rows/staged_rows.cuh). y and dy are read once and dx written once, 16 bytes
// at a time; dx takes the place of dy in shared memory. The sum is a fold over words, then lanes.
// Memory is the limit, so there are kernels for few numbers of words a lane
// (docs/lab/softmax-grad-kernels.md#staged-rows).
#pragma once

#include "kernels_cuda/rows/staged_rows.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

// S: a StagedFragment. rounds: how many times as many rows as a block has threads for.
template <bool kLog, class In, class S>
__global__ void __launch_bounds__(kShortThreads)
    grad_staged_kernel(const __grid_constant__ GradParams<In, In> params, const int rounds) {
  using F = compute_t<In>;
  TWINOPS_DYNAMIC_SHARED(smem);
  const StagedBlock<S> block(params.rows, rounds);
  const std::size_t bytes =
      StagedRows<In>::bytes(static_cast<std::size_t>(block.rows * block.length));
  const StagedRows<In> y(smem, params.y + block.begin, block.count);
  const StagedRows<In> dy(smem + bytes, params.dy + block.begin, block.count);
  y.fetch(params.y + block.begin);
  dy.fetch(params.dy + block.begin);
  dy.wait();
#pragma unroll 1
  for (int r = staged_row<S>(block.length); r < block.rows; r += kStagedRows<S>) {
    const int begin = y.shift() + r * block.length;
    const S fragment(begin, block.length, threadIdx.x % S::kLanes);
    GradFragment<In, S> of_lane;
    fragment.load(y.memory() + begin, of_lane.y);
    fragment.load(dy.memory() + begin, of_lane.dy);
    const F sum = of_lane.template sum<kLog>() + F(0);
    of_lane.template forget<kLog>();
    of_lane.template store<kLog>(fragment, dy.memory() + begin, 1, sum, params.scale);
  }
  dy.store(params.dx + block.begin);
}

}  // namespace twinops
