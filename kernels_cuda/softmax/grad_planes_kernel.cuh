// The kernel of softmax_grad and log_softmax_grad over rows that lie across memory and do not move
// as one, by way of shared memory (staged_planes.cuh). dx takes the place of dy there.
#pragma once

#include "kernels_cuda/softmax/grad_strided_kernel.cuh"
#include "kernels_cuda/strided_rows/staged_planes.cuh"

namespace twinops {

// In K registers of a thread. planes: of a block.
template <bool kLog, class Job, int K>
__global__ void __launch_bounds__(kShortThreads)
    grad_planes_kernel(const __grid_constant__ Job job, const int planes) {
  using T = typename Job::In;
  TWINOPS_DYNAMIC_SHARED(memory);
  const AcrossPlan& plan = job.plan;
  const StagedPlanes block(job.rows, planes);
  const StagedRows<T> y(memory, job.y + block.begin, block.count);
  const StagedRows<T> dy(
      memory + StagedRows<T>::bytes(static_cast<std::size_t>(planes) * block.plane),
      job.dy + block.begin, block.count);
  y.fetch(job.y + block.begin);
  dy.fetch(job.dy + block.begin);
  dy.wait();
  const AcrossRoom<typename Job::F> room{};  // nothing is joined there
  block.for_each_tile(plan, [&](const AcrossPlace<1>& of, int start) {
    T* const dx = dy.memory() + dy.shift() + start;
    grad_across<kLog, K>(job, plan, of, room, y.memory() + y.shift() + start, dx, dx);
  });
  dy.store(job.dx + block.begin);
}

}  // namespace twinops
