// Calls from hosts that have threads of their own: many at once, inside OpenMP's parallel regions,
// after fork(); and lists that are longer than patience allows.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "tests/support/runners.hpp"
#include "tools/proof/softmax_values.hpp"
#include "tools/proof/trial.hpp"
#include "tools/proof/values.hpp"

namespace twinops::test {
namespace {

using proof::Outcome;
using proof::Problem;
using proof::TensorSpec;
using proof::Trial;

constexpr std::uint64_t kSeed = 8128;

// Rows of so many chunks that a kernel asks for more shared memory than is had unasked.
Problem long_rows(std::int64_t columns) {
  return Problem("softmax")
      .input("x", {{kFloat32, {1, columns}}}, proof::logits())
      .output("out", {{kFloat32, {1, columns}}});
}

// A list that is worth several threads.
Problem unscale(std::vector<TensorSpec> list, proof::Fill fill) {
  return Problem("check_finite_and_unscale")
      .input("x", list, std::move(fill))
      .input("scale", {{kFloat32, {}}}, proof::constant(3))
      .output("out", proof::in_place(list, "x"))
      .output("found_inf", {{kBool, {}}}, proof::constant(0));
}
Problem several_threads() {
  return unscale({{kFloat16, {70001}}, {kFloat32, {50000}}, {kFloat64, {3}}, {kBfloat16, {60000}}},
                 proof::whole_range());
}

std::vector<std::string> host_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/")) rows.push_back(row);
  return rows;
}

bool equal(const Trial& trial, const Outcome& expected, const Outcome& actual) {
  return !proof::first_difference(trial, expected, actual) &&
         !proof::stray_write(trial, actual.block);
}

TEST(HostThreads, ManyCallAtOnce) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  const std::vector<std::string> rows = host_rows();
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn) {
        const std::string& row = rows[static_cast<std::size_t>(i + turn) % rows.size()];
        const Execution execution{.threads = 1 + (i + turn) % 5};
        if (!equal(trial, expected, proof::run(trial, row, execution))) ++bad;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

// A kernel's limit is one for all threads: none may take another's launch below what it needs.
TEST(HostThreads, LaunchAKernelWithLittleAndWithMuchSharedMemory) {
  const std::string row = available_rows().front();
  if (!row.starts_with("cuda")) GTEST_SKIP() << "needs a GPU";
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (const std::int64_t columns : {200000, 300000, 400000})
    threads.emplace_back([&, columns] {
      const Trial trial(long_rows(columns), kSeed);
      const Outcome expected = proof::run(trial, "cpu/scalar");
      for (int turn = 0; turn < 20; ++turn) try {
          if (!equal(trial, expected, proof::run(trial, row))) ++bad;
        } catch (const std::exception&) {
          ++bad;
        }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0) << row << ", seed " << kSeed;
}

// Errors are each thread's own.
TEST(HostThreads, EachHasItsOwnMessage) {
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const std::string name = "operator" + std::to_string(i);
      for (int turn = 0; turn < 200; ++turn) {
        twinops_run(name.c_str(), nullptr, 0, nullptr, 0, nullptr);
        bad += !std::string(twinops_last_error())
                    .starts_with("no operator is named '" + name + "'; the operators are ");
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

#if defined(_OPENMP)
TEST(OpenMP, CallsInsideAParallelRegion) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  const std::vector<std::string> rows = host_rows();
  int bad = 0;
#pragma omp parallel for num_threads(4) schedule(static, 1) reduction(+ : bad)
  for (int i = 0; i < 24; ++i) {
    const std::string& row = rows[static_cast<std::size_t>(i) % rows.size()];
    bad += equal(trial, expected, proof::run(trial, row, {.threads = 7})) ? 0 : 1;
  }
  EXPECT_EQ(bad, 0);
}

// A number that no machine has the threads for: OpenMP would end the process.
TEST(OpenMP, NoMoreThreadsThanThereIsAUseFor) {
  const auto running = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const int most = std::max(64, 4 * omp_get_num_procs());
  std::vector<float> x(static_cast<std::size_t>(most + 100) << 12);  // a range is 4096 or more
  const auto before = running();
  uniform(Tensor(x.data(), {static_cast<std::int64_t>(x.size())}), {},
          {.threads = 1 << 30, .row = "cpu"});
  EXPECT_LE(running() - before, most) << "OpenMP keeps them for the next call";
}
#endif

// In a child of fork() OpenMP's threads are gone; a call must neither hang nor differ.
TEST(Fork, CallsInTheChild) {
  const Trial trial(several_threads(), kSeed);
  const Outcome expected = proof::run(trial, "cpu/scalar");
  for (const std::string& row : host_rows())
    ASSERT_TRUE(equal(trial, expected, proof::run(trial, row, {.threads = 4})));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // a hang ends by a signal
    bool good = true;
    for (const std::string& row : host_rows())
      good &= equal(trial, expected, proof::run(trial, row, {.threads = 4}));
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      alarm(30);
      _exit(equal(trial, expected, proof::run(trial, "cpu", {.threads = 2})) ? 0 : 1);
    }
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(good && status == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "the child hung or crashed: signal " << WTERMSIG(status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child's bits differ";
  EXPECT_TRUE(equal(trial, expected, proof::run(trial, "cpu", {.threads = 4})))
      << "the parent's after the fork";
}

TEST(LongList, AHundredThousandTensors) {
  std::vector<TensorSpec> list;
  for (std::int64_t i = 0; i < 100000; ++i)
    list.push_back({proof::kFloatingTypes[i * 7 % 4], {i * 37 % 23}, {}, i % 4});
  for (const bool found : {false, true}) {
    Problem problem = unscale(list, found ? proof::whole_range() : proof::ordinary());
    problem.guard = 8;
    const Trial trial(std::move(problem), kSeed);
    const Outcome expected = proof::run(trial, "cpu/scalar");
    for (const std::string& row : available_rows()) {
      const Outcome actual = proof::run(trial, row, {.threads = 3});
      const auto difference = proof::first_difference(trial, expected, actual);
      EXPECT_FALSE(difference) << row << ": " << proof::describe(*difference);
    }
  }
}

}  // namespace
}  // namespace twinops::test
