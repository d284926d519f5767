// Whatever a host's callbacks throw comes back as a status with its words, and the next call is
// well: an allocator, its release, a parallel_for that throws before, among and after its tasks.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/runners.hpp"

namespace twinops::test {
namespace {

constexpr std::int64_t kRows = 3, kColumns = 300 * 1024;  // a row is cut: scratch memory, threads

std::vector<std::string> cutting_rows() {
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/") && row != "cpu/scalar") rows.push_back(row);
  return rows;
}

class ThrowingCallbacks : public testing::TestWithParam<std::string> {
 protected:
  ThrowingCallbacks() : x_(kRows * kColumns), y_(x_.size()), expected_(x_.size()) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 7919 % 1013) / 64;
    softmax({x_.data(), {kRows, kColumns}}, {expected_.data(), {kRows, kColumns}}, {},
            {.row = GetParam()});
  }
  // The call fails with these words; one without the callback succeeds then.
  void expect_failure(const Execution& execution, const std::string& words,
                      twinops_status status = TWINOPS_INTERNAL) {
    try {
      run(execution);
      ADD_FAILURE() << "the call succeeded";
    } catch (const Error& error) {
      EXPECT_EQ(error.status, status);
      EXPECT_EQ(error.what(), words);
    }
    run({.threads = 4, .row = GetParam()});
    EXPECT_EQ(y_, expected_);
  }
  void run(const Execution& execution) {
    softmax({x_.data(), {kRows, kColumns}}, {y_.data(), {kRows, kColumns}}, {}, execution);
  }
  static void* allocate(void*, std::size_t bytes, void*) {
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }

  std::vector<float> x_, y_, expected_;
};
INSTANTIATE_TEST_SUITE_P(EveryRow, ThrowingCallbacks, testing::ValuesIn(cutting_rows()),
                         [](const auto& info) { return info.param.substr(4); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ThrowingCallbacks);

TEST_P(ThrowingCallbacks, Allocate) {
  Execution execution{.threads = 4, .row = GetParam(), .parallel_for = in_order};
  execution.allocate = [](void*, std::size_t, void*) -> void* {
    throw std::runtime_error("the host's allocator is cross");
  };
  expect_failure(execution, "the host's allocator is cross");
  execution.allocate = [](void*, std::size_t, void*) -> void* { throw std::bad_alloc(); };
  expect_failure(execution, "no host memory", TWINOPS_OUT_OF_MEMORY);
  execution.allocate = [](void*, std::size_t, void*) -> void* { throw 5; };
  expect_failure(execution, "unknown exception");
}

TEST_P(ThrowingCallbacks, Release) {
  Execution execution{.threads = 4, .row = GetParam(), .parallel_for = in_order};
  execution.allocate = allocate;
  execution.release = [](void*, void* memory, std::size_t, void*) {
    std::free(memory);
    throw std::runtime_error("the host's release is cross");
  };
  expect_failure(execution, "the host's release is cross");
}

// Both of one call: the one that came first is told.
TEST_P(ThrowingCallbacks, ParallelForAndRelease) {
  Execution execution{.threads = 4, .row = GetParam()};
  execution.allocate = allocate;
  execution.release = [](void*, void* memory, std::size_t, void*) {
    std::free(memory);
    throw std::runtime_error("the host's release is cross");
  };
  execution.parallel_for = [](void*, std::int64_t, Task, void*) {
    throw std::runtime_error("the host's threads are cross");
  };
  expect_failure(execution, "the host's threads are cross");
}

TEST_P(ThrowingCallbacks, ParallelFor) {
  Execution execution{.threads = 4, .row = GetParam()};
  for (std::int64_t after : {0, 1, 3, 100}) {
    execution.parallel_context = &after;
    execution.parallel_for = [](void* context, std::int64_t n, Task task, void* of_task) {
      const std::int64_t most = *static_cast<std::int64_t*>(context);
      for (std::int64_t i = 0; i < std::min(n, most); ++i) task(of_task, i);
      throw std::runtime_error("the host's threads are cross");
    };
    expect_failure(execution, "the host's threads are cross");
  }
}

}  // namespace
}  // namespace twinops::test
