// Where the system gives no threads (RLIMIT_NPROC, RLIMIT_AS), a call has fewer, the same bits, and
// the process goes on. This program's pthread_create refuses after so many; and a child of fork()
// has no address space left for stacks.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/runners.hpp"
#include "tools/proof/trial.hpp"
#include "tools/proof/values.hpp"

namespace {
std::atomic<int> threads_left{1 << 20};
std::atomic<int> refused{0};
std::atomic<int> made{0};
}  // namespace

extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) {
    ++refused;
    return EAGAIN;
  }
  const int error = create(thread, attributes, run, argument);
  if (error == 0) ++made;
  return error;
}

namespace twinops::test {
namespace {

using proof::Outcome;
using proof::Problem;
using proof::TensorSpec;
using proof::Trial;

constexpr std::uint64_t kSeed = 8191;

Problem several_threads() {
  const std::vector<TensorSpec> list{{kFloat16, {70001}}, {kFloat32, {50000}}, {kFloat64, {30000}}};
  return Problem("check_finite_and_unscale")
      .input("x", list, proof::whole_range())
      .input("scale", {{kFloat32, {}}}, proof::constant(3))
      .output("out", proof::in_place(list, "x"))
      .output("found_inf", {{kBool, {}}}, proof::constant(0));
}
std::vector<std::string> vector_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/") && row != "cpu/scalar") rows.push_back(row);
  return rows;
}
bool equal(const Trial& trial, const Outcome& expected, const Outcome& actual) {
  return !proof::first_difference(trial, expected, actual) &&
         !proof::stray_write(trial, actual.block);
}

// In a process of its own, whose exit code says what became of it.
template <class F>
void expect_in_a_process(F&& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: a library ended the process; 3: the bits differ";
}

class WithoutThreads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(After, WithoutThreads, testing::Values(0, 1, 2, 5),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(WithoutThreads, FewerThreadsTheSameBits) {
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  for (const std::string& row : vector_rows())
    expect_in_a_process([&] {
      threads_left = GetParam();
      bool good = true;
      for (int turn = 0; turn < 10; ++turn)
        good &= equal(trial, expected, proof::run(trial, row, {.threads = 8}));
      return good && refused > 0;
    });
}

// Threads come back when the system has some again. Those that pthread_create makes are counted,
// not those of the process: ThreadSanitizer makes some of its own, one of them with the first of
// these.
TEST(WithoutThreads, AreMadeAgainLater) {
  if (vector_rows().empty()) GTEST_SKIP() << "no row of this build has threads";
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  expect_in_a_process([&] {
    made = 0;
    threads_left = 0;
    bool good = equal(trial, expected, proof::run(trial, "cpu", {.threads = 4}));
    good &= made == 0 && refused > 0;
    threads_left = 1 << 20;
    for (int turn = 0; turn < 2000 && made == 0; ++turn)
      good &= equal(trial, expected, proof::run(trial, "cpu", {.threads = 4}));
    return good && made == 3;
  });
}

#if !defined(TWINOPS_SANITIZED)  // which reserve more address space than there is memory
TEST(WithoutAddressSpace, FewerThreadsTheSameBits) {
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  for (const std::string& row : vector_rows())
    expect_in_a_process([&] {
      proof::Placed placed(trial, kHost);
      std::ifstream file("/proc/self/statm");
      std::size_t pages = 0;
      file >> pages;
      const rlim_t now = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
      const rlimit limit{now + (1 << 19), now + (1 << 19)};  // no room for a stack
      if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
      for (int turn = 0; turn < 10; ++turn) {
        placed.restore();
        placed.run({.threads = 8, .row = row});
      }
      const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
      setrlimit(RLIMIT_AS, &none);
      return !proof::first_difference(trial, expected, placed.fetch(), expected.report);
    });
}
#endif

// A child of fork() makes threads of its own.
TEST(Fork, TheChildHasThreads) {
  if (vector_rows().empty()) GTEST_SKIP() << "no row of this build has threads";
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  ASSERT_TRUE(equal(trial, expected, proof::run(trial, "cpu", {.threads = 4})));
  expect_in_a_process([&] {
    const bool good = equal(trial, expected, proof::run(trial, "cpu", {.threads = 4}));
    return good && std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 4;
  });
}

}  // namespace
}  // namespace twinops::test
