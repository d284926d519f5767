// The kernel of softmax_grad and log_softmax_grad of strided rows that do not move in vectors, by
// way of shared memory (strided_rows/staged_planes.cuh). y and dy are read once and dx written
// once, 16 bytes at a time; dx takes the place of dy in shared memory.
#pragma once

#include "kernels_cuda/softmax/grad_strided_kernel.cuh"
#include "kernels_cuda/strided_rows/staged_planes.cuh"

namespace twinops {

// In K registers of a thread. planes: of a block.
template <bool kLog, class Params, int K>
__global__ void __launch_bounds__(kShortThreads)
    grad_planes_kernel(const __grid_constant__ Params params, const int planes) {
  using T = typename Params::In;
  TWINOPS_DYNAMIC_SHARED(smem);
  const StridedPlan& plan = params.plan;
  const StagedPlanes block(params.rows, planes);
  const StagedRows<T> y(smem, params.y + block.begin, block.count);
  const StagedRows<T> dy(
      smem + StagedRows<T>::bytes(static_cast<std::size_t>(planes) * block.plane),
      params.dy + block.begin, block.count);
  y.fetch(params.y + block.begin);
  dy.fetch(params.dy + block.begin);
  dy.wait();
  const StridedSmem<typename Params::F>
      shared{};  // a warp has the whole row: nothing is joined there
  block.for_each_tile(plan, [&](const StridedPlace<1>& of, int start) {
    T* const dx = dy.memory() + dy.shift() + start;
    grad_strided_rows<kLog, K>(params, plan, of, shared, y.memory() + y.shift() + start, dx, dx);
  });
  dy.store(params.dx + block.begin);
}

}  // namespace twinops
