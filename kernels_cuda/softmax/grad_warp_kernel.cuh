// The kernel of softmax_grad and log_softmax_grad of rows of up to a chunk: 2^k lanes a row,
// several rows a warp. y and dy are read once and stay in registers, dx is written once; the sum is
// a fold over registers, then lanes. The kernel of any rows, under any mask, moves them in vectors
// where it can, and takes rows of one vector a lane apart, in which most of a chunk is empty.
#pragma once

#include "kernels_cuda/rows/lane_shapes.hpp"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

template <bool kLog, class In, class S, class Params>
__device__ __forceinline__ void grad_warp_rows(const Params& params) {
  using F = compute_t<In>;
  constexpr int G = S::kLanes;
  constexpr int kRows = kShortThreads / G;  // of a block
  const int lane = threadIdx.x % G;
  const int first = threadIdx.x / kWarp * (kWarp / G);  // of the warp, whose lanes stay together
  const std::int64_t* const step = params.rows.step;
  for (std::int64_t base = std::int64_t{blockIdx.x} * kRows + first; base < params.rows.rows;
       base += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t r = base + threadIdx.x % kWarp / G;
    const int left = r < params.rows.rows ? static_cast<int>(params.rows.length) : 0;
    const auto starts = row_starts(params.rows.outer, r);
    const S fragment(params.y + starts.of[kY], left, lane);
    GradFragment<In, S, kTakesAnyRows<Params>> of_lane;
    of_lane.load_chunk(params, fragment, starts, 0);
    if constexpr (kDropsOut<Params>) params.drop_out(fragment, starts.of[kDx], of_lane.dy);
    const F sum = of_lane.template sum<kLog>() + F(0);
    of_lane.template store<kLog>(fragment, params.dx + starts.of[kDx], step[kDx], sum,
                                 params.scale);
  }
}

template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kShortThreads)
    grad_warp_kernel(const __grid_constant__ GradParamsOf<In, Out, S> params) {
  if constexpr (S::kVector == 1) {
    constexpr int V = 16 / sizeof(In);
    if (params.in_vectors && params.rows.length <= most_elements({kWarp, 1}, V, true))
      return grad_warp_rows<kLog, In, LaneFragment<kWarp, 1, V, true>>(params);
    if (params.in_vectors) return grad_warp_rows<kLog, In, ChunkFragment<V, true>>(params);
  }
  grad_warp_rows<kLog, In, S>(params);
}

}  // namespace twinops
