// softmax_grad and log_softmax_grad of short rows that begin anywhere, where they lie side by side
// (staged_rows.cuh). Share of the copy rate on an H200, so and then staged: float16 10 columns 0.32
// and 1.03, its logarithm 0.31 and 1.00, 65 0.65 and 1.02, 0.64 and 1.01, 257 0.84 and 0.99, 0.78
// and 0.97; float32 3 columns 0.21 and 1.02, 0.20 and 1.02. Memory is the limit, so every fourth
// number of words a lane will do, but for the least (10 columns in 8 words a lane in place of 6:
// the logarithm 0.83 in place of 0.96).
#pragma once

#include "kernels_cuda/rows/staged_rows.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

// S: a StagedFragment.
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
