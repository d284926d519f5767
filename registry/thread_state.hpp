// What waits in a thread for its host: the message of its last failure, and the words of its last
// report. It goes with the thread, and does not keep the library loaded as a C++ thread_local with
// a destructor would.
#pragma once

#include <string>

namespace twinops {

struct ThreadState {
  std::string error;
  bool error_is_lost = false;  // there was no memory for its words
  std::string fallback;
};

// This thread's own; nullptr where there is no memory for it, or no key of the process is left.
ThreadState* thread_state() noexcept;

}  // namespace twinops
