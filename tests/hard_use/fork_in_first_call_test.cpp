// A fork while another thread is in the middle of a process's first call: the child's calls answer.
// This program's operator new stops a thread at its k-th allocation, for every k that there is;
// there the process forks, and the child, in which that thread is gone for ever, asks for
// everything. What the library makes at the first question must be locked by nobody.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/example_call.hpp"

namespace {

thread_local bool watched = false;
std::atomic<int> before_stop{-1};  // allocations of the watched thread before it stops
std::atomic<bool> stopped{false}, may_go_on{false};

void look() {
  if (!watched || before_stop.fetch_sub(1) != 0) return;
  stopped = true;
  while (!may_go_on) std::this_thread::yield();
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  look();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace twinops::test {
namespace {

// The things that a process may ask for first.
constexpr const char* kThings[] = {"a call", "an operator", "a row", "an explanation", "a device"};
constexpr int kMostAllocations = 2000;

bool finds(std::size_t thing) {
  switch (thing) {
    case 0: {
      Example e;
      return e.call.run() == TWINOPS_OK && e.written.out[1][5] == 0.25f &&
             std::string(e.call.report.row).starts_with("cpu/");
    }
    case 1: {
      const twinops_operator_info* op = twinops_operator_at(0);
      return op != nullptr && twinops_find_operator(op->name) == op;
    }
    case 2: {
      const twinops_row* row = twinops_row_at(twinops_row_count() - 1);
      return row != nullptr && std::string(row->name) == "cpu/scalar" && row->available;
    }
    case 3: {
      std::vector<char> text(8192);
      return twinops_explain({kDLCPU, 0}, text.data(), text.size(), nullptr) == TWINOPS_OK &&
             std::string(text.data()).find(": chosen\n") != std::string::npos;
    }
    default:
      for (std::size_t d = 0; d < twinops_device_count(); ++d)
        if (!std::string(twinops_device_at(d)->row).starts_with("cuda/")) return false;
      return true;
  }
}

// What became of a process in which `thing` was the first question and stopped at its k-th
// allocation: 0 all well, 1 the child's answers were wrong or none came, 2 it has fewer
// allocations.
int fork_at(std::size_t thing, int k) {
  before_stop = k;
  std::atomic<bool> done{false}, good{false};
  std::thread thread([&] {
    watched = true;
    good = finds(thing);
    watched = false;
    done = true;
  });
  while (!stopped && !done) std::this_thread::yield();
  int status = 0;
  if (stopped) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // a hang ends by a signal
      for (std::size_t other = 0; other < std::size(kThings); ++other)
        if (!finds((thing + other) % std::size(kThings))) _exit(1);
      _exit(0);
    }
    waitpid(child, &status, 0);
  }
  may_go_on = true;
  thread.join();
  return !good || status != 0 ? 1 : stopped ? 0 : 2;
}

class ForkInFirstCall : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Of, ForkInFirstCall, testing::Range(std::size_t{0}, std::size(kThings)),
                         [](const auto& info) {
                           std::string name = kThings[info.param];
                           name[name.find(' ')] = '_';
                           return name;
                         });

TEST_P(ForkInFirstCall, LeavesTheChildWhole) {
  int k = 0;
  for (; k < kMostAllocations; ++k) {
    const pid_t process = fork();  // one that has asked for nothing
    ASSERT_GE(process, 0);
    if (process == 0) _exit(fork_at(GetParam(), k));
    int status = 0;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == 2) break;
    ASSERT_EQ(WEXITSTATUS(status), 0) << kThings[GetParam()] << ", stopped at allocation " << k;
  }
  EXPECT_LT(k, kMostAllocations) << "the thread never came to its end";
  RecordProperty("children", k);
  if (GetParam() < 4) {
    EXPECT_GT(k, 0) << "no allocation was seen: this test sees nothing";
  }
}

}  // namespace
}  // namespace twinops::test
