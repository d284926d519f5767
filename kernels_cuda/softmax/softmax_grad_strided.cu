// softmax_grad and log_softmax_grad over rows that lie across memory: which calls those are, and
// how they are launched.
#include "kernels_cuda/softmax/grad_planes_kernel.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {
namespace {

template <bool kLog, int V, int K, class Job>
bool launch_across(Job& job, Execution& execution) {
  using F = typename Job::F;
  job.plan = plan_across(job.rows, K, V, sizeof(typename Job::In), execution.device.index);
  const auto kernel = job.plan.chunks == 1 ? grad_across_kernel<kLog, Job, V, K>
                                           : grad_across_long_kernel<kLog, Job, V, K>;
  return launch_tiles(kernel, job, V, GradAcrossRoom<F>::bytes(job.plan, V), execution);
}

// By way of shared memory, rows that a warp holds; false if that is no way for them.
template <bool kLog, class Job>
bool launch_planes(Job& job, Execution& execution) {
  using T = typename Job::In;
  constexpr int K = kLog ? 24 : 32, kStep = 8;            // a thread's elements of y and of dy
  constexpr int kOfBlock = 16 * 1024, kMost = 32 * 1024;  // bytes, of each
  if (job.rows.length > K * kWarp || !are_planes<T>(job.rows, kMost, {job.dx, job.y, job.dy}))
    return false;
  job.plan = plan_planes(job.rows, K);
  const int planes = planes_of_block<T>(job.rows, kOfBlock, execution.device.index);
  bool done = false;
  with_registers_across<K, kStep>(
      job.plan, job.rows.length, [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
        done =
            launch_planes_of(grad_planes_kernel<kLog, Job, kRegisters>, job, planes, 2, execution);
      });
  return done;
}

// A thread holds 128 bytes of y and dy, four rows wide where they move as one.
template <bool kLog, class T>
bool launch_type(const SoftmaxGradArguments& a, Execution& execution) {
  constexpr int V = sizeof(T) == 8 ? 2 : 4;
  constexpr int kPacks = 64 / static_cast<int>(V * sizeof(T));
  constexpr int kSingle = 64 / static_cast<int>(sizeof(compute_t<T>));
  GradAcrossJob<T, T> job{static_cast<const T*>(a.y),
                          static_cast<const T*>(a.dy),
                          static_cast<T*>(a.dx),
                          in_axes<kFewAxes>(a.rows),
                          {},
                          static_cast<compute_t<T>>(a.scale)};
  if (moves_as_one<3>(a.rows, {{a.dx, sizeof(T)}, {a.y, sizeof(T)}, {a.dy, sizeof(T)}}, V))
    return launch_across<kLog, V, kPacks>(job, execution);
  if constexpr (sizeof(T) < 8)
    if (launch_planes<kLog>(job, execution)) return true;
  return launch_across<kLog, 1, kSingle>(job, execution);
}

template <class T>
bool launch(bool log, const SoftmaxGradArguments& a, Execution& execution) {
  return log ? launch_type<true, T>(a, execution) : launch_type<false, T>(a, execution);
}

}  // namespace

bool run_softmax_grad_across(bool log, const SoftmaxGradArguments& a, Execution& execution) {
  if (!goes_across(a.rows, a.types)) return false;
  const CurrentDevice current(execution.device.index);
  bool done = false;
  with_floating_type(a.types.in, [&]<class T>(TypeTag<T>) { done = launch<T>(log, a, execution); });
  return done;
}

}  // namespace twinops
