// softmax and log_softmax over rows that lie across memory: which calls those are, and how they are
// launched.
#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_across_kernel.cuh"

namespace twinops {
namespace {

template <bool kLog, int V, int K, class Job>
bool launch_across(Job& job, Execution& execution) {
  using F = typename Job::F;
  job.plan = plan_across(job.rows, K, V, sizeof(typename Job::In), execution.device.index);
  // Steps cost code: few where it is slow anyway.
  constexpr int kStep = sizeof(F) == 8 ? K : K / 4;
  const auto launch = [&](auto kernel) {
    return launch_tiles(kernel, job, V, SoftmaxAcrossRoom<F>::bytes(job.plan, V), execution);
  };
  if (job.plan.chunks > 1) return launch(softmax_across_long_kernel<kLog, Job, V, K>);
  bool done = false;
  with_registers_across<K, kStep>(
      job.plan, job.rows.length, [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
        done = launch(softmax_across_kernel<kLog, Job, V, kRegisters, kStep>);
      });
  return done;
}

// A thread holds 128 bytes of what is computed with, four rows wide where they move as one.
template <bool kLog, class T>
bool launch_type(const SoftmaxArguments& a, Execution& execution) {
  constexpr int V = sizeof(T) == 8 ? 2 : 4, K = 128 / static_cast<int>(sizeof(compute_t<T>));
  SoftmaxAcrossJob<T, T> job{
      static_cast<const T*>(a.x), static_cast<T*>(a.out), a.rows, {}, a.masked_is_zero};
  return moves_as_one<2>(a.rows, {{a.out, sizeof(T)}, {a.x, sizeof(T)}}, V)
             ? launch_across<kLog, V, K / V>(job, execution)
             : launch_across<kLog, 1, K>(job, execution);
}

template <class T>
bool launch(bool log, const SoftmaxArguments& a, Execution& execution) {
  return log ? launch_type<true, T>(a, execution) : launch_type<false, T>(a, execution);
}

}  // namespace

bool run_softmax_across(bool log, const SoftmaxArguments& a, Execution& execution) {
  if (!a.is_plain() || !goes_across(a.rows, a.types)) return false;
  const CurrentDevice current(execution.device.index);
  bool done = false;
  with_floating_type(a.types.in, [&]<class T>(TypeTag<T>) { done = launch<T>(log, a, execution); });
  return done;
}

}  // namespace twinops
