// Two OpenMP runtimes in a process are two teams of threads, and each spins after a region of its
// own while the other wants the cores. Paddle's wheels for x86-64 bring libiomp5, whose entry
// points for code that g++ compiled they call; libtwinops.so finds libgomp. So a call from here
// borrows Paddle's: what libpaddle.so itself is bound to.
#include "hosts/paddle/threads.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace twinops::paddle_host {
namespace {

struct Runtime {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*thread_number)() = nullptr;
  int (*team_size)() = nullptr;
  int (*most_threads)() = nullptr;
  int (*processors)() = nullptr;

  Runtime() {
    void* paddle = dlopen("libpaddle.so", RTLD_LAZY | RTLD_NOLOAD);
    if (paddle == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(paddle, name));
      return function != nullptr;
    };
    // `parallel` comes last: it says that all are there.
    if (find(thread_number, "omp_get_thread_num") && find(team_size, "omp_get_num_threads") &&
        find(most_threads, "omp_get_max_threads") && find(processors, "omp_get_num_procs"))
      find(parallel, "GOMP_parallel");
  }
};

const Runtime& runtime() {
  static const Runtime found;
  return found;
}

struct Region {
  int64_t n;
  void (*task)(void*, int64_t);
  void* context;

  static void run(void* self) {
    const Region region = *static_cast<const Region*>(self);
    const int64_t step = runtime().team_size();
    for (int64_t i = runtime().thread_number(); i < region.n; i += step)
      region.task(region.context, i);
  }
};

void parallel_for(void*, int64_t n, void (*task)(void*, int64_t), void* context) {
  // Where OpenMP cannot make the threads that it is asked for it ends the process.
  const int64_t most = std::max<int64_t>(64, 4 * runtime().processors());
  Region region{n, task, context};
  runtime().parallel(&Region::run, &region, static_cast<unsigned>(std::min(n, most)), 0);
}

}  // namespace

void lend_threads(twinops_execution& execution) {
  if (runtime().parallel == nullptr) return;
  // The variable speaks where a call does not.
  static const bool told = std::getenv("TWINOPS_THREADS") != nullptr;
  if (!told) execution.threads = runtime().most_threads();
  execution.parallel_for = &parallel_for;
}

}  // namespace twinops::paddle_host
