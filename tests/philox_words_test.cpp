// philox_words: shards against the whole, calls that follow one another, seeds on the device.
#include <gtest/gtest.h>

#include "tests/support/dropout_row.hpp"

namespace twinops::test {
namespace {

class PhiloxWordsRow : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, PhiloxWordsRow, testing::ValuesIn(available_rows()), test_name);

// Any cut of a tensor draws the whole tensor's words: 2, 4 and 8 parts along any axis.
TEST_P(PhiloxWordsRow, ShardsDrawTheWhole) {
  const Shape whole = {8, 24, 40};
  for (const char* layout : {"contiguous", "strided", "triton"}) {
    RandomOptions options{.seed = 31, .layout = layout, .period = 11, .element_offset = 6};
    const Words expected = words(whole, options);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      for (const std::int64_t parts : {2, 4, 8}) {
        Shape part = whole, start = {0, 0, 0};
        part[axis] /= parts;
        for (std::int64_t k = 0; k < parts; ++k) {
          start[axis] = k * part[axis];
          RandomOptions shard = options;
          shard.global_shape = whole;
          shard.start = start;
          const Words drawn = words(part, shard);
          for (std::size_t i = 0; i < drawn.size(); ++i) {
            const auto n = static_cast<std::int64_t>(i);
            const Shape at = {start[0] + n / (part[1] * part[2]), start[1] + n / part[2] % part[1],
                              start[2] + n % part[2]};
            ASSERT_EQ(drawn[i],
                      expected[static_cast<std::size_t>((at[0] * 24 + at[1]) * 40 + at[2])])
                << layout << ", part " << k << " of " << parts << " along axis " << axis
                << ", element " << i;
          }
        }
      }
    }
  }
}

// Two calls, the second moved on by what the first reserved, draw what one call draws; nothing is
// drawn twice and nothing left out.
TEST_P(PhiloxWordsRow, CallsShareNoWords) {
  const Words whole = words({64}, {.seed = 8, .offset = 12});
  for (const std::int64_t n : {1, 3, 4, 5, 30, 32}) {
    const Words first = words({n}, {.seed = 8, .offset = 12});
    const std::uint64_t reserved = 4 * ((static_cast<std::uint64_t>(n) + 3) / 4);
    const Words second = words({16}, {.seed = 8, .offset = 12 + reserved});
    EXPECT_TRUE(std::equal(first.begin(), first.end(), whole.begin()));
    EXPECT_TRUE(std::equal(second.begin(), second.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(reserved)));
  }
}

TEST_P(PhiloxWordsRow, ReadsSeedAndOffsetOnTheDevice) {
  const std::int64_t seed = -3, offset = 40;
  const std::vector<std::int64_t> seeds = {4, -9, 4};
  const OnDevice seed_at(GetParam(), std::vector{seed}), offset_at(GetParam(), std::vector{offset}),
      seeds_at(GetParam(), seeds);
  RandomOptions there{.offset = 8};
  there.seed_tensor = seed_at.tensor({1});
  there.offset_tensor = offset_at.tensor({});
  EXPECT_EQ(words({300}, there),
            words({300}, {.seed = static_cast<std::uint64_t>(seed), .offset = 48}));
  for (const std::size_t count : {3, 1}) {  // one row's draw indexes follow one another
    const auto rows = static_cast<std::int64_t>(count);
    RandomOptions options;
    options.seeds = seeds_at.tensor({rows});
    const Words drawn = words({rows, 50}, options);
    for (std::size_t row = 0; row < count; ++row) {
      const Words alone = words({50}, {.seed = static_cast<std::uint64_t>(seeds[row])});
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             drawn.begin() + static_cast<std::ptrdiff_t>(50 * row)))
          << "row " << row << " of " << count;
    }
  }
}

}  // namespace
}  // namespace twinops::test
