// XLA's threads, lent to twinops.
#pragma once

#include <xla/ffi/api/ffi.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace twinops::jax_host {

// twinops_execution's parallel_for over XLA's pool. The caller works too and takes what nobody has
// taken yet, and at the end it waits only for tasks that have begun: a pool whose threads all stand
// in calls of their own cannot make it wait for ever.
class Threads {
 public:
  explicit Threads(::xla::ffi::ThreadPool& pool) : pool_(pool) {}

  static void parallel_for(void* self, int64_t n, void (*task)(void*, int64_t), void* context) {
    const auto work = std::make_shared<Work>(n, task, context);
    ::xla::ffi::ThreadPool& pool = static_cast<Threads*>(self)->pool_;
    for (int64_t i = 1; i < n; ++i) pool.Schedule([work] { work->take(); });
    work->take();
    for (int64_t done = work->done; done < n; done = work->done) work->done.wait(done);
  }

 private:
  struct Work {  // outlives the call where a thread comes too late for it
    Work(int64_t n, void (*task)(void*, int64_t), void* context)
        : n(n), task(task), context(context) {}

    void take() {
      for (int64_t i = next++; i < n; i = next++) {
        task(context, i);
        if (++done == n) done.notify_all();
      }
    }

    const int64_t n;
    void (*const task)(void*, int64_t);
    void* const context;
    std::atomic<int64_t> next{0}, done{0};
  };

  ::xla::ffi::ThreadPool& pool_;
};

}  // namespace twinops::jax_host
