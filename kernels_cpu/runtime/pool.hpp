// The threads of this library: made when a call first has a use for them, kept for the next, parked
// soon after the last. Nothing here ends the process: where a thread cannot be made, there are
// fewer. A child of fork() has none and makes its own.
#pragma once

#include <cstdint>

namespace twinops {

// Threads lent to one call, for the length of a scope.
class Team {
 public:
  static constexpr int kMost = 1024;  // threads that there can be, of all calls at once

  // At most `wanted` threads: those that no other call has, and new ones where there are too few.
  explicit Team(int wanted);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }  // not counting the caller
  // Calls body(context, i) once for every i in [0, size()], 0 by the caller, which also takes over
  // what a thread has not begun when its own is done. Returns when all are done. body() must not
  // throw.
  void run(void (*body)(void* context, std::int64_t i), void* context);

 private:
  void wake(int part) const;
  void serve(int part) const;
  static void* loop(void* worker);
  static bool start(int worker);

  void (*body_)(void*, std::int64_t) = nullptr;
  void* context_ = nullptr;
  int size_ = 0;
  std::uint16_t members_[kMost];  // numbers of threads; of parts 1, 2, ...
};

}  // namespace twinops
