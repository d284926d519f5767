#include "kernels_cpu/runtime/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "kernels_cpu/runtime/pool.hpp"
#include "numerics/environment.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace twinops {
namespace {

struct Partition {
  std::int64_t n, parts, align;
  RangeBody body;
  void* context;
  char* buffers = nullptr;
  std::size_t buffer = 0;  // bytes of each
  std::atomic<bool> failed{false};
  std::exception_ptr error{};  // the first

  std::int64_t cut(std::int64_t part) const {
    if (part == parts) return n;
    const std::int64_t blocks = (n + align - 1) / align;
    return (blocks / parts * part + std::min(part, blocks % parts)) * align;
  }
  void run(std::int64_t part) const {
    const FloatEnvironment environment;
    const std::int64_t begin = cut(part), end = cut(part + 1);
    if (begin < end) body(context, begin, end, buffers + static_cast<std::size_t>(part) * buffer);
  }
  // On a thread that is not the caller's: what is thrown waits for the caller.
  static void task(void* of, std::int64_t part) {
    Partition& partition = *static_cast<Partition*>(of);
    try {
      partition.run(part);
    } catch (...) {
      if (!partition.failed.exchange(true)) partition.error = std::current_exception();
    }
  }
  void rethrow() const {
    if (error != nullptr) std::rethrow_exception(error);
  }
};

// OpenMP is asked how many threads a call may have and whether this one is inside a region of the
// host's. The threads are the pool's: OpenMP's end the process where they cannot be made, do not
// come along with a fork, and spin on the processors that the host's want next.
int default_threads() {
#if defined(_OPENMP)
  return std::min(omp_get_max_threads(), omp_get_thread_limit());
#else
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}
bool in_parallel() {
#if defined(_OPENMP)
  return omp_in_parallel() != 0;
#else
  return false;
#endif
}

// Processors are counted by a system call, so not for an ordinary number.
int bounded(int threads) {
  constexpr int kOrdinary = 64;
  if (threads <= kOrdinary) return threads;
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::min({threads, std::max(kOrdinary, 4 * processors), Team::kMost});
}

}  // namespace

int thread_count(const Execution& execution) {
  const int asked = execution.threads > 0 ? execution.threads : default_threads();
  return execution.parallel_for != nullptr ? asked : bounded(asked);
}

void parallel_ranges(const Execution& execution, std::int64_t n, std::int64_t grain,
                     std::int64_t align, std::size_t bytes, RangeBody body, void* context) {
  if (n <= 0) return;
  const std::int64_t most = std::min<std::int64_t>(n / grain, (n + align - 1) / align);
  Partition partition{n, std::clamp<std::int64_t>(most, 1, thread_count(execution)), align, body,
                      context};
  partition.buffer = (bytes + 63) / 64 * 64;
  const auto size = [&] { return static_cast<std::size_t>(partition.parts) * partition.buffer; };
  if (partition.parts > 1 && execution.parallel_for != nullptr) {
    const Workspace buffers(execution, size());
    partition.buffers = static_cast<char*>(buffers.data());
    execution.parallel_for(execution.parallel_context, partition.parts, &Partition::task,
                           &partition);
    return partition.rethrow();
  }
  if (partition.parts > 1 && !in_parallel()) {
    Team team(static_cast<int>(partition.parts) - 1);
    partition.parts = team.size() + 1;
    if (partition.parts > 1) {
      const Workspace buffers(execution, size());
      partition.buffers = static_cast<char*>(buffers.data());
      team.run(&Partition::task, &partition);
      return partition.rethrow();
    }
  }
  partition.parts = 1;
  const Workspace buffers(execution, size());
  partition.buffers = static_cast<char*>(buffers.data());
  partition.run(0);
}

}  // namespace twinops
