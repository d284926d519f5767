// The host's allocator, on the CPU: a softmax whose row is cut over threads takes its scratch
// memory from it, gives the same back, and says so where there is none.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/runners.hpp"

namespace twinops::test {
namespace {

constexpr std::int64_t kRows = 3, kColumns = 300 * 1024;

std::vector<std::string> cutting_rows() {  // the reference cuts nothing
  std::vector<std::string> rows;
  for (const std::string& row : available_rows())
    if (row.starts_with("cpu/") && row != "cpu/scalar") rows.push_back(row);
  return rows;
}
class Allocator : public testing::TestWithParam<std::string> {
 protected:
  struct Block {
    void* memory;
    std::size_t bytes;
    bool operator==(const Block&) const = default;
  };

  Allocator() : x_(kRows * kColumns), y_(x_.size(), 5) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 7919 % 1013) / 64;
  }
  ~Allocator() override {
    for (const Block& block : held_) std::free(block.memory);
  }

  Execution execution(bool with_release = true) {
    Execution how{.stream = this, .threads = 4, .row = GetParam(), .parallel_for = in_order};
    how.allocate = [](void* self, std::size_t bytes, void* stream) {
      EXPECT_EQ(stream, self);
      return static_cast<Allocator*>(self)->allocate(bytes);
    };
    if (with_release)
      how.release = [](void* self, void* memory, std::size_t bytes, void* stream) {
        EXPECT_EQ(stream, self);
        static_cast<Allocator*>(self)->released_.push_back({memory, bytes});
      };
    how.workspace_context = this;
    return how;
  }
  void run(const Execution& how) {
    softmax({x_.data(), {kRows, kColumns}}, {y_.data(), {kRows, kColumns}}, {}, how);
  }
  // What the call gives without an allocator.
  std::vector<float> expected() {
    run({.threads = 4, .row = GetParam(), .parallel_for = in_order});
    std::vector<float> y(y_.size(), 5);
    std::swap(y, y_);
    return y;
  }

  int refuse_at_ = -1;  // the number of the request that gets nothing
  std::vector<Block> held_, released_;
  std::vector<float> x_, y_;

 private:
  void* allocate(std::size_t bytes) {
    if (static_cast<int>(held_.size()) == refuse_at_) return nullptr;
    // As much as was asked for and no more: a sanitizer sees what lies beyond. Not zeros.
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    std::fill_n(static_cast<unsigned char*>(memory), bytes, 0xca);
    held_.push_back({memory, bytes});
    return memory;
  }
};
INSTANTIATE_TEST_SUITE_P(EveryRow, Allocator, testing::ValuesIn(cutting_rows()),
                         [](const auto& info) { return info.param.substr(4); });

TEST_P(Allocator, GivesScratchMemoryAndGetsItBack) {
  const std::vector<float> without = expected();
  run(execution());
  EXPECT_EQ(y_, without);
  EXPECT_GT(held_.size(), 0u) << "nothing was asked for";
  EXPECT_EQ(held_, released_);
}

TEST_P(Allocator, MayKeepItsMemory) {
  const std::vector<float> without = expected();
  run(execution(false));
  EXPECT_EQ(y_, without);
  EXPECT_GT(held_.size(), 0u) << "nothing was asked for";
}

TEST_P(Allocator, WithoutMemory) {
  refuse_at_ = 0;
  try {
    run(execution());
    FAIL() << "ran without";
  } catch (const Error& error) {
    EXPECT_EQ(error.status, TWINOPS_OUT_OF_MEMORY);
    const std::string message = error.what(), end = " bytes of scratch memory could be had";
    EXPECT_TRUE(message.starts_with("no ") && message.ends_with(end)) << message;
    EXPECT_GT(std::atoll(message.c_str() + 3), 0) << message;
  }
  EXPECT_EQ(y_, std::vector<float>(y_.size(), 5)) << "something was written";
  EXPECT_EQ(released_.size(), 0u) << "what was not had was given back";
}

}  // namespace
}  // namespace twinops::test
