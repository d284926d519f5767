// A thread is handed its part through its own Worker and nothing else, without a lock: so a fork()
// finds nothing locked, and one that the system is slow to run loses its part to the caller.
#include "kernels_cpu/runtime/pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace twinops {
namespace {

enum State : int {
  absent,    // no thread
  idle,      // waits for a call
  claimed,   // by a call
  posted,    // has a part
  running,   // works at it
  finished,  // the caller has not seen it yet
  stopping,  // the library is unloaded
};

struct alignas(64) Worker {
  std::atomic<int> state{absent};
  std::atomic<int> asleep{0};
  const Team* team = nullptr;
  int part = 0;
  pthread_t thread{};
};
constinit Worker workers[Team::kMost];
std::atomic<int> used{0};  // workers that ever had a thread are below this number

std::atomic<bool> unloaded{false};
// Calls that may pass before another thread is tried for, after one could not be made.
std::atomic<int> patience{0};
constexpr int kPatience = 256;

void reset_in_child() {
  for (int i = 0; i < used.load(std::memory_order_relaxed); ++i) {
    workers[i].state.store(absent, std::memory_order_relaxed);
    workers[i].asleep.store(0, std::memory_order_relaxed);
  }
  patience.store(0, std::memory_order_relaxed);
}
[[gnu::constructor]] void watch_forks() { pthread_atfork(nullptr, nullptr, reset_in_child); }

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks again and again for as long as the next part of a run of calls may take to come: a thread
// that sleeps takes tens of microseconds to wake on a virtual machine. After the first moments it
// lets others have the processor, and after the last it sleeps: the host's threads want it.
constexpr std::chrono::microseconds kAlone{4}, kSpin{300};
template <class Done>
bool spin(Done&& done) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause();
    }
    const auto spent = std::chrono::steady_clock::now() - begin;
    if (spent > kSpin) return false;
    if (spent > kAlone) std::this_thread::yield();
  }
}

// Where OpenMP was told to bind threads, it has bound those that call: ours go to its places too
// and do not stay with their maker.
void bind(pthread_attr_t& attributes, int worker) {
#if defined(_OPENMP) && defined(__linux__)
  if (omp_get_proc_bind() == omp_proc_bind_false || omp_get_num_places() == 0) return;
  const int place = (worker + 1) % omp_get_num_places(), count = omp_get_place_num_procs(place);
  const std::unique_ptr<int[]> ids(new (std::nothrow) int[static_cast<std::size_t>(count)]);
  if (ids == nullptr) return;
  omp_get_place_proc_ids(place, ids.get());
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i)
    if (ids[i] >= 0 && ids[i] < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(ids[i]), &set);
  pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
#else
  static_cast<void>(attributes), static_cast<void>(worker);
#endif
}

}  // namespace

void* Team::loop(void* worker) {
  Worker& w = *static_cast<Worker*>(worker);
  const auto is_called = [&] {
    const int state = w.state.load(std::memory_order_seq_cst);
    return state == posted || state == stopping;
  };
  while (true) {
    while (!spin(is_called)) {
      w.asleep.store(1, std::memory_order_seq_cst);
      if (!is_called()) w.asleep.wait(1, std::memory_order_acquire);
      w.asleep.store(0, std::memory_order_relaxed);
      if (is_called()) break;
    }
    int state = posted;
    if (w.state.compare_exchange_strong(state, running, std::memory_order_acq_rel)) {
      w.team->serve(w.part);
      w.state.store(finished, std::memory_order_release);
      w.state.notify_one();
    } else if (state == stopping) {
      return nullptr;
    }
  }
}

// Makes the thread of a worker that is claimed, with every signal blocked: they are the host's.
bool Team::start(int worker) {
  Worker& w = workers[worker];
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, 1 << 20);
  bind(attributes, worker);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool made = pthread_create(&w.thread, &attributes, loop, &w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

Team::Team(int wanted) {
  bool may_start = !unloaded.load(std::memory_order_relaxed);
  if (may_start && patience.load(std::memory_order_relaxed) > 0) {
    patience.fetch_sub(1, std::memory_order_relaxed);
    may_start = false;
  }
  for (int i = 0; size_ < wanted; ++i) {
    int known = used.load(std::memory_order_relaxed);
    if (i == kMost || (i >= known && !may_start)) return;
    while (i >= known && !used.compare_exchange_weak(known, i + 1, std::memory_order_relaxed)) {
    }
    Worker& w = workers[i];
    int state = w.state.load(std::memory_order_relaxed);
    if (state != idle && (state != absent || !may_start)) continue;
    if (!w.state.compare_exchange_strong(state, claimed, std::memory_order_acq_rel)) continue;
    if (state == absent && !start(i)) {
      w.state.store(absent, std::memory_order_release);
      patience.store(kPatience, std::memory_order_relaxed);
      may_start = false;
      continue;
    }
    members_[size_++] = static_cast<std::uint16_t>(i);
  }
}

Team::~Team() {
  for (int i = 0; i < size_; ++i) workers[members_[i]].state.store(idle, std::memory_order_release);
}

void Team::wake(int part) const {
  if (part > size_) return;
  Worker& w = workers[members_[part - 1]];
  if (w.asleep.load(std::memory_order_seq_cst) == 0) return;
  w.asleep.store(0, std::memory_order_seq_cst);
  w.asleep.notify_one();
}

// Who takes a part wakes the two threads below it: waking many one by one takes longer.
void Team::serve(int part) const {
  wake(2 * part + 1);
  wake(2 * part + 2);
  body_(context_, part);
}

void Team::run(void (*body)(void*, std::int64_t), void* context) {
  body_ = body;
  context_ = context;
  for (int part = 1; part <= size_; ++part) {
    Worker& w = workers[members_[part - 1]];
    w.team = this;
    w.part = part;
    w.state.store(posted, std::memory_order_seq_cst);
  }
  serve(0);
  for (int part = 1; part <= size_; ++part) {
    Worker& w = workers[members_[part - 1]];
    int state = posted;
    if (w.state.compare_exchange_strong(state, claimed, std::memory_order_acq_rel)) {
      serve(part);
      continue;
    }
    const auto is_done = [&] { return w.state.load(std::memory_order_acquire) == finished; };
    if (!spin(is_done))
      while (!is_done()) w.state.wait(running, std::memory_order_acquire);
  }
}

namespace {

// The library's code goes away, and no thread may be in it. (At the end of a process, too; one that
// a call still has is left to it after a moment.)
[[gnu::destructor]] void stop_threads() {
  unloaded.store(true, std::memory_order_relaxed);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < used.load(std::memory_order_relaxed); ++i) {
    Worker& w = workers[i];
    int state = idle;
    while (!w.state.compare_exchange_strong(state, stopping, std::memory_order_seq_cst)) {
      if (state == absent || std::chrono::steady_clock::now() > until) break;
      state = idle;
      std::this_thread::yield();
    }
    if (w.state.load(std::memory_order_relaxed) != stopping) continue;
    w.asleep.store(0, std::memory_order_seq_cst);
    w.asleep.notify_one();
    pthread_join(w.thread, nullptr);
    w.state.store(absent, std::memory_order_relaxed);
  }
}

}  // namespace
}  // namespace twinops
