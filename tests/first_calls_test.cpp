// A process's first calls, from many threads at once: what the library reads and makes once
// (settings, tables, what the machine has) is right for each of them. Each child of fork() is a
// process that has made none; so this program holds no other test.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/example_call.hpp"

namespace twinops::test {
namespace {

constexpr int kThings = 5, kProcesses = 40 * kThings;

// As many threads as there are processors, so that all of them run when the last arrives.
int thread_count() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 16);
}

// Whether a thread finds a thing as it must be; nothing, if there is none of that number.
bool finds(int thing) {
  switch (thing) {
    case 0: {
      Example e;
      return e.call.run() == TWINOPS_OK && e.written.out[1][5] == 0.25f &&
             std::string(e.call.report.row).starts_with("cpu/");
    }
    case 1: {
      const twinops_operator_info* op = twinops_operator_at(twinops_operator_count() - 1);
      return op != nullptr && twinops_find_operator(op->name) == op && op->argument_count >= 2 &&
             op->arguments[0]->type_count != 0;
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
    case 4:
      for (std::size_t d = 0; d < twinops_device_count(); ++d)
        if (!std::string(twinops_device_at(d)->row).starts_with("cuda/")) return false;
      return true;
    default:
      return true;
  }
}

bool many_at_once(int first) {
  const int count = thread_count();
  std::atomic<int> here{0}, bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&] {
      // What makes nothing: it brings the code's pages, on which threads would wait for each other.
      bad += twinops_abi_version() != TWINOPS_ABI_VERSION || !finds(kThings);
      ++here;
      while (here != count) {  // and no yielding: all go on at once
      }
      for (int k = 0; k < kThings; ++k) bad += !finds((first + k) % kThings);
    });
  for (std::thread& t : threads) t.join();
  return bad == 0;
}

TEST(FirstCalls, FromManyThreadsAtOnce) {
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a hang ends by a signal
      _exit(many_at_once(i % kThings) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_FALSE(WIFSIGNALED(status)) << "it hung or crashed: signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0) << "a thread found something else than it must";
  }
}

}  // namespace
}  // namespace twinops::test
