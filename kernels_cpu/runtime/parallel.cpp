#include "kernels_cpu/runtime/parallel.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "numerics/environment.hpp"

#if defined(_OPENMP)
#include <omp.h>
#else
#include <thread>
#endif

namespace twinops {
namespace {

// Set in a child of fork(), where libgomp would wait for threads that only the parent has.
std::atomic<bool> forked{false};
[[gnu::constructor]] void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
}

struct Partition {
  std::int64_t n, parts, align;
  RangeBody body;
  void* context;

  std::int64_t cut(std::int64_t part) const {
    if (part == parts) return n;
    const std::int64_t blocks = (n + align - 1) / align;
    return (blocks / parts * part + std::min(part, blocks % parts)) * align;
  }
  void run(std::int64_t part) const {
    const FloatEnvironment environment;
    const std::int64_t begin = cut(part), end = cut(part + 1);
    if (begin < end) body(context, begin, end);
  }
  static void task(void* partition, std::int64_t part) {
    static_cast<const Partition*>(partition)->run(part);
  }
};

#if defined(_OPENMP)
// OpenMP ends the process when it cannot create the threads that it is asked for. Processors are
// counted by a system call, so only for an unusual number.
int bounded(int threads) {
  constexpr int kOrdinary = 64;
  if (threads > kOrdinary)
    threads = std::min(threads, std::max(kOrdinary, 4 * omp_get_num_procs()));
  return std::min(threads, omp_get_thread_limit());
}
#endif

}  // namespace

int thread_count(const Execution& execution) {
#if defined(_OPENMP)
  const int asked = execution.threads > 0 ? execution.threads : omp_get_max_threads();
  return execution.parallel_for != nullptr ? asked : bounded(asked);
#else
  if (execution.threads > 0) return execution.threads;
  if (execution.parallel_for == nullptr) return 1;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

void parallel_ranges(const Execution& execution, std::int64_t n, std::int64_t grain,
                     std::int64_t align, RangeBody body, void* context) {
  if (n <= 0) return;
  const std::int64_t most = std::min<std::int64_t>(n / grain, (n + align - 1) / align);
  Partition partition{n, std::clamp<std::int64_t>(most, 1, thread_count(execution)), align, body,
                      context};
  if (partition.parts > 1 && execution.parallel_for != nullptr) {
    execution.parallel_for(execution.parallel_context, partition.parts, &Partition::task,
                           &partition);
    return;
  }
#if defined(_OPENMP)
  if (partition.parts > 1 && !omp_in_parallel() && !forked.load(std::memory_order_relaxed)) {
    // A copy of the partition travels with what OpenMP hands over: a thread fetches one line less.
#pragma omp parallel for num_threads(static_cast <int>(partition.parts)) schedule(static, 1) \
    firstprivate(partition)
    for (std::int64_t part = 0; part < partition.parts; ++part) partition.run(part);
    return;
  }
#endif
  partition.parts = 1;
  partition.run(0);
}

}  // namespace twinops
