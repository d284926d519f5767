// The kernel of softmax and log_softmax of strided rows that do not move in vectors, by way of
// shared memory (strided_rows/staged_planes.cuh). x is read once and out written once, 16 bytes at
// a time.
#pragma once

#include "kernels_cuda/softmax/strided_kernel.cuh"
#include "kernels_cuda/strided_rows/staged_planes.cuh"

namespace twinops {

// In K registers of a thread, the last kMaybe of which may lie beyond the row. planes: of a block.
template <bool kLog, class Params, int K, int kMaybe>
__global__ void __launch_bounds__(kShortThreads)
    softmax_planes_kernel(const __grid_constant__ Params params, const int planes) {
  using T = typename Params::In;
  TWINOPS_DYNAMIC_SHARED(smem);
  const StridedPlan& plan = params.plan;
  const StagedPlanes block(params.rows, planes);
  const StagedRows<T> staged(smem, params.x + block.begin, block.count);
  staged.fetch(params.x + block.begin);
  staged.wait();
  const StridedSoftmaxSmem<typename Params::F> shared(
      smem, plan, 1, 0);  // a warp has the whole row: nothing is joined there
  block.for_each_tile(plan, [&](const StridedPlace<1>& of, int start) {
    T* const row = staged.memory() + staged.shift() + start;
    softmax_strided_rows<kLog, StridedChunk<kLog, Params, 1, K, K - kMaybe, true>>(
        params, plan, of, shared, row, row);
  });
  staged.store(params.out + block.begin);
}

}  // namespace twinops
