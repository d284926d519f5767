// The kernel of softmax and log_softmax over rows that lie across memory and do not move as one, by
// way of shared memory (staged_planes.cuh).
#pragma once

#include "kernels_cuda/softmax/strided_kernel.cuh"
#include "kernels_cuda/strided_rows/staged_planes.cuh"

namespace twinops {

// In K registers of a thread, the last kMaybe of which may lie beyond the row. planes: of a block.
template <bool kLog, class Job, int K, int kMaybe>
__global__ void __launch_bounds__(kShortThreads)
    softmax_planes_kernel(const __grid_constant__ Job job, const int planes) {
  using T = typename Job::In;
  TWINOPS_DYNAMIC_SHARED(memory);
  const AcrossPlan& plan = job.plan;
  const StagedPlanes block(job.rows, planes);
  const StagedRows<T> staged(memory, job.x + block.begin, block.count);
  staged.fetch(job.x + block.begin);
  staged.wait();
  const SoftmaxAcrossRoom<typename Job::F> room(memory, plan, 1, 0);  // nothing is joined there
  block.for_each_tile(plan, [&](const AcrossPlace<1>& of, int start) {
    T* const row = staged.memory() + staged.shift() + start;
    soften_across<kLog, ChunkAcross<kLog, Job, 1, K, K - kMaybe, true>>(job, plan, of, room, row,
                                                                        row);
  });
  staged.store(job.out + block.begin);
}

}  // namespace twinops
