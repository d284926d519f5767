// What a process makes at the first question and then keeps, without a lock: a child of fork()
// never waits for a thread that stayed behind in its parent.
#pragma once

#include <atomic>
#include <memory>

namespace twinops {

// Threads that ask at once may each make one; the first that is done is kept, and all get that one.
// Meant for a static: an object without an initialization of its own that could be caught halfway.
// What make() throws goes to the caller, and the next question makes anew.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  ~MadeOnce() { delete made_.exchange(nullptr, std::memory_order_acq_rel); }
  MadeOnce(const MadeOnce&) = delete;

  template <class Make>
  const T& get(Make&& make) {
    if (const T* made = made_.load(std::memory_order_acquire)) return *made;
    std::unique_ptr<const T> mine(new T(make()));
    const T* first = nullptr;
    if (!made_.compare_exchange_strong(first, mine.get(), std::memory_order_acq_rel)) return *first;
    return *mine.release();
  }

 private:
  std::atomic<const T*> made_{nullptr};
};

// The same of a question with two answers, which takes no memory.
class AskedOnce {
 public:
  template <class Ask>
  bool get(Ask&& ask) {
    signed char answer = answer_.load(std::memory_order_relaxed);
    if (answer < 0) answer_.store(answer = ask() ? 1 : 0, std::memory_order_relaxed);
    return answer != 0;
  }

 private:
  std::atomic<signed char> answer_{-1};
};

}  // namespace twinops
