// softmax and log_softmax over rows that lie across memory: which calls those are, and how they are
// launched.
#include "kernels_cuda/softmax/planes_kernel.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {
namespace {

// Threads hold K elements of each of V rows: of rows of up to a chunk as few as will do, in steps.
template <bool kLog, int V, int K, int kStep, class Job>
bool launch_short(Job& job, Execution& execution) {
  using F = typename Job::F;
  constexpr bool kMany = kManyAcross<F, V * K>;
  job.plan = plan_across<kMany>(job.rows, K, V, sizeof(typename Job::In), execution.device.index);
  const std::size_t shared = SoftmaxAcrossRoom<F>::bytes(job.plan, V);
  bool done = false;
  with_registers_across<K, kStep>(
      job.plan, job.rows.length, [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
        done = launch_tiles(softmax_across_kernel<kLog, Job, V, kRegisters, kStep, kMany>, job, V,
                            shared, execution);
      });
  return done;
}
template <bool kLog, int V, int K, class Job>
bool launch_long(Job& job, Execution& execution) {
  using F = typename Job::F;
  constexpr bool kMany = kManyAcross<F, V * K>;
  job.plan = plan_across<kMany>(job.rows, K, V, sizeof(typename Job::In), execution.device.index);
  return launch_tiles(softmax_across_long_kernel<kLog, Job, V, K, kMany>, job, V,
                      SoftmaxAcrossRoom<F>::bytes(job.plan, V), execution);
}

// By way of shared memory, rows of up to a chunk; false if that is no way for them.
template <bool kLog, class Job>
bool launch_planes(Job& job, Execution& execution) {
  using T = typename Job::In;
  constexpr int K = 40, kStep = 8;  // a thread's elements
  constexpr int kOfBlock = (sizeof(T) == 2 ? 24 : 20) * 1024, kMost = 32 * 1024;  // bytes
  if (!are_planes<T>(job.rows, kMost, {job.out, job.x})) return false;
  job.plan = plan_planes(job.rows, K);
  const int planes = planes_of_block<T>(job.rows, kOfBlock, execution.device.index);
  bool done = false;
  with_registers_across<K, kStep>(
      job.plan, job.rows.length, [&]<int kRegisters>(std::integral_constant<int, kRegisters>) {
        done = launch_planes_of(softmax_planes_kernel<kLog, Job, kRegisters, kStep>, job, planes, 1,
                                execution);
      });
  return done;
}

template <bool kLog, class T>
bool launch_type(const SoftmaxArguments& a, Execution& execution) {
  SoftmaxAcrossJob<T, T> job{static_cast<const T*>(a.x),
                             static_cast<T*>(a.out),
                             in_axes<kFewAxes>(a.rows),
                             {},
                             a.masked_is_zero};
  const auto as_one = [&](int V) {
    return moves_as_one<2>(a.rows, {{a.out, sizeof(T)}, {a.x, sizeof(T)}}, V);
  };
  constexpr int kSingle = sizeof(T) == 8 ? 16 : sizeof(T) == 4 ? 32 : 64;
  constexpr int kPair = sizeof(T) == 8 ? 8 : 32;
  if (a.rows.length > kFoldChunk)
    return as_one(2) ? launch_long<kLog, 2, kPair>(job, execution)
                     : launch_long<kLog, 1, kSingle>(job, execution);
  if constexpr (sizeof(T) == 8) {  // steps cost code: none where it is slow anyway
    return as_one(2) ? launch_short<kLog, 2, kPair, kPair>(job, execution)
                     : launch_short<kLog, 1, kSingle, kSingle>(job, execution);
  } else {
    if ((sizeof(T) == 4 || a.rows.length <= 8) && as_one(4))
      return launch_short<kLog, 4, 8, 2>(job, execution);
    if constexpr (sizeof(T) == 2)
      if (as_one(2)) return launch_short<kLog, 2, kPair, 4>(job, execution);
    if (launch_planes<kLog>(job, execution)) return true;
    return launch_short<kLog, 1, kSingle, 8>(job, execution);
  }
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
