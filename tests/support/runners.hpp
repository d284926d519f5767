// Ways of lending threads to a call: OpenMP's own, and hosts' parallel_for.
#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/host_modes.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {

using Task = void (*)(void* task_context, std::int64_t i);

// Every task on a thread of its own, each thread in another floating-point state, as pools are that
// were made under one.
inline void on_own_threads(void*, std::int64_t n, Task task, void* context) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < n; ++i)
    threads.emplace_back([=] {
      const HostMode& mode = kHostModes[static_cast<std::size_t>(i) % std::size(kHostModes)];
      const InHostMode host(mode);
      task(context, i);
      EXPECT_EQ(float_control(), mode.control) << "a lent thread came back changed";
    });
  for (std::thread& t : threads) t.join();
}
inline void in_order(void*, std::int64_t n, Task task, void* context) {
  for (std::int64_t i = 0; i < n; ++i) task(context, i);
}
inline void in_reverse(void*, std::int64_t n, Task task, void* context) {
  for (std::int64_t i = n; i-- > 0;) task(context, i);
}

struct Runner {
  const char* name;
  void (*parallel_for)(void*, std::int64_t, Task, void*);
};
inline constexpr Runner kRunners[] = {{"OpenMP", nullptr},
                                      {"the host's threads", on_own_threads},
                                      {"one after the other", in_order},
                                      {"in reverse", in_reverse}};
inline constexpr int kThreadCounts[] = {1, 2, 3, 7, 64};

}  // namespace twinops::test
