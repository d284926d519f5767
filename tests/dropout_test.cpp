// dropout, its backward pass, philox_words and uniform, on every row that this machine has, against
// what others print: Triton's table, cuRAND's sequence (curand_test.cpp), and against themselves:
// shards against the whole, masks of one kind against the other. Equality of the kernels over all
// cases is the cross-check's.
#include "numerics/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/on_device.hpp"

namespace twinops::test {
namespace {

using Words = std::vector<std::uint32_t>;
using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;
using Shape = std::vector<std::int64_t>;

class DropoutRow : public testing::TestWithParam<std::string> {
 protected:
  Execution on_row() const { return {.row = GetParam()}; }

  // The byte mask of a tensor of `shape`, and its y for x = 1, 2, 3, ...
  struct Drawn {
    Bytes mask;
    Floats y;
    std::uint64_t random_words;
  };
  Drawn draw(const Shape& shape, const DropoutOptions& options) const {
    const auto n = static_cast<std::size_t>(elements_of(shape));
    Floats x(n);
    std::iota(x.begin(), x.end(), 1.0f);
    Drawn drawn{Bytes(n, 0xca), Floats(n, -1), 0};
    const OnDevice x_at(GetParam(), x), y_at(GetParam(), drawn.y);
    const OnDevice m_at(GetParam(), drawn.mask);
    drawn.random_words =
        dropout(x_at.tensor(shape), y_at.tensor(shape), m_at.tensor(shape), options, on_row())
            .random_words;
    y_at.read(drawn.y);
    m_at.read(drawn.mask);
    return drawn;
  }
  Words words(const Shape& shape, const RandomOptions& options) const {
    Words drawn(static_cast<std::size_t>(elements_of(shape)), 0xcacacaca);
    const OnDevice at(GetParam(), drawn);
    philox_words(at.tensor(shape), options, on_row());
    at.read(drawn);
    return drawn;
  }
};
INSTANTIATE_TEST_SUITE_P(EveryRow, DropoutRow, testing::ValuesIn(available_rows()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '/') c = '_';
                           return name;
                         });

// The table that Triton's tutorial on dropout prints: ten elements, p = 0.5.
TEST_P(DropoutRow, DrawsTheMaskOfTritonsTutorial) {
  struct Line {
    std::uint64_t seed;
    Bytes kept;
  };
  for (const Line& line :
       {Line{123, {0, 1, 0, 0, 0, 1, 0, 0, 1, 1}}, Line{512, {0, 0, 1, 1, 0, 1, 1, 0, 0, 0}}}) {
    DropoutOptions options;
    options.random.seed = line.seed;
    options.random.layout = "triton";
    const Drawn drawn = draw({10}, options);
    EXPECT_EQ(drawn.mask, line.kept) << "seed " << line.seed;
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_EQ(drawn.y[i], line.kept[i] ? 2 * static_cast<float>(i + 1) : 0.0f);
  }
}

TEST_P(DropoutRow, KeepsWhatTheUniformNumberSays) {
  for (const char* layout : {"contiguous", "strided", "triton"}) {
    for (const double p : {0.1, 0.5, 0.9, 0x1p-20}) {
      DropoutOptions options{.p = p};
      options.random = {.seed = 99, .layout = layout, .period = 5};
      const Drawn drawn = draw({3001}, options);
      Floats u(3001);
      const OnDevice at(GetParam(), u);
      uniform(at.tensor({3001}), options.random, on_row());
      at.read(u);
      const auto limit = static_cast<float>(p);
      for (std::size_t i = 0; i < u.size(); ++i) {
        const bool kept = std::string(layout) == "triton" ? u[i] > limit : u[i] < 1.0f - limit;
        ASSERT_EQ(drawn.mask[i], kept) << layout << " p " << p << " element " << i;
        const float scaled = static_cast<float>(i + 1) * (1.0f / (1.0f - limit));
        ASSERT_EQ(drawn.y[i], kept ? scaled : 0.0f) << layout << " p " << p << " element " << i;
      }
    }
  }
}

// Bits, bytes and no mask at all: the same y, the same dx, and bits that say what the bytes say.
TEST_P(DropoutRow, AllMasksAreTheSame) {
  for (const std::int64_t n : {1, 31, 32, 33, 100, 1024, 5003}) {
    DropoutOptions options{.p = 0.3};
    options.random.seed = 5;
    const Drawn bytes = draw({n}, options);
    const auto size = static_cast<std::size_t>(n);
    Floats x(size), y(size, -1), dx_bits(size, -1), dx_bytes(size, -1), dx_drawn(size, -1);
    std::iota(x.begin(), x.end(), 1.0f);
    Words bits(static_cast<std::size_t>(n + 31) / 32, 0xcacacaca);
    const std::string& row = GetParam();
    const OnDevice bits_at(row, bits);
    const OnDevice bytes_at(row, bytes.mask);
    const OnDevice x_at(row, x), y_at(row, y), d1(row, dx_bits), d2(row, dx_bytes),
        d3(row, dx_drawn);
    const Shape words = {(n + 31) / 32};
    dropout(x_at.tensor({n}), y_at.tensor({n}), {}, options, on_row());
    y_at.read(y);
    EXPECT_EQ(y, bytes.y) << "without a mask, n " << n;
    dropout(x_at.tensor({n}), y_at.tensor({n}), bits_at.tensor(words), options, on_row());
    y_at.read(y);
    bits_at.read(bits);
    EXPECT_EQ(y, bytes.y) << "with a bit mask, n " << n;
    for (std::size_t i = 0; i < bits.size() * 32; ++i)
      ASSERT_EQ(bits[i / 32] >> (i % 32) & 1, i < size ? bytes.mask[i] : 0)
          << "n " << n << " bit " << i;
    dropout_grad(x_at.tensor({n}), d1.tensor({n}), bits_at.tensor(words), options, on_row());
    dropout_grad(x_at.tensor({n}), d2.tensor({n}), bytes_at.tensor({n}), options, on_row());
    EXPECT_EQ(dropout_grad(x_at.tensor({n}), d3.tensor({n}), {}, options, on_row()).random_words,
              bytes.random_words);
    d1.read(dx_bits);
    d2.read(dx_bytes);
    d3.read(dx_drawn);
    EXPECT_EQ(dx_bits, bytes.y) << "n " << n;
    EXPECT_EQ(dx_bytes, bytes.y) << "n " << n;
    EXPECT_EQ(dx_drawn, bytes.y) << "n " << n;
  }
}

// Any cut of a tensor draws the whole tensor's words: 2, 4 and 8 parts along any axis.
TEST_P(DropoutRow, ShardsDrawTheWhole) {
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

// A shard reserves what the whole reserves, so that ranks stay in step.
TEST_P(DropoutRow, ReservesWhatItDraws) {
  const auto reserved = [&](const Shape& shape, const RandomOptions& random, double p = 0.5) {
    DropoutOptions options{.p = p};
    options.random = random;
    return draw(shape, options).random_words;
  };
  EXPECT_EQ(reserved({0}, {}), 0u);
  EXPECT_EQ(reserved({1}, {}), 4u);
  EXPECT_EQ(reserved({4}, {}), 4u);
  EXPECT_EQ(reserved({5}, {}), 8u);
  EXPECT_EQ(reserved({5}, {.element_offset = 7}), 12u);
  EXPECT_EQ(reserved({5}, {.global_shape = {100}, .start = {3}}), 100u);
  EXPECT_EQ(reserved({3, 5}, {.shared_axes = {1}}), 4u);
  EXPECT_EQ(reserved({100}, {.layout = "strided", .period = 10}), 12u);
  EXPECT_EQ(reserved({100}, {.layout = "triton"}), 0u);
  EXPECT_EQ(reserved({100}, {}, 0), 0u);
  EXPECT_EQ(reserved({100}, {}, 1), 0u);
}

// Two calls, the second moved on by what the first reserved, draw what one call draws; nothing is
// drawn twice and nothing left out.
TEST_P(DropoutRow, CallsShareNoWords) {
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

TEST_P(DropoutRow, ReadsSeedAndOffsetOnTheDevice) {
  const std::int64_t seed = -3, offset = 40;
  const std::vector<std::int64_t> seeds = {4, -9, 4};
  const OnDevice seed_at(GetParam(), std::vector{seed}), offset_at(GetParam(), std::vector{offset}),
      seeds_at(GetParam(), seeds);
  RandomOptions there{.offset = 8};
  there.seed_tensor = seed_at.tensor({1});
  there.offset_tensor = offset_at.tensor({});
  EXPECT_EQ(words({300}, there),
            words({300}, {.seed = static_cast<std::uint64_t>(seed), .offset = 48}));
  RandomOptions rows;
  rows.seeds = seeds_at.tensor({3});
  const Words drawn = words({3, 50}, rows);
  for (std::size_t row = 0; row < 3; ++row) {
    const Words alone = words({50}, {.seed = static_cast<std::uint64_t>(seeds[row])});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                           drawn.begin() + static_cast<std::ptrdiff_t>(50 * row)));
  }
}

// Dropout2d: a channel is kept or dropped as one.
TEST_P(DropoutRow, SharesWordsAlongAxes) {
  DropoutOptions options;
  options.random = {.seed = 6, .shared_axes = {2, 3}};
  const Drawn drawn = draw({5, 7, 4, 9}, options);
  const Words channels = words({35}, {.seed = 6});
  for (std::size_t i = 0; i < drawn.mask.size(); ++i)
    ASSERT_EQ(drawn.mask[i], channels[i / 36] < 0x7fffffc0u) << i;
}

TEST_P(DropoutRow, NothingIsDrawnAtTheEnds) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats x = {1, nan, -0.0f, std::numeric_limits<float>::infinity(), -2};
  const OnDevice x_at(GetParam(), x);
  Floats y(5, 7);
  const OnDevice y_at(GetParam(), y);
  dropout(x_at.tensor({5}), y_at.tensor({5}), {}, {.p = 1}, on_row());
  y_at.read(y);
  for (const float value : y) EXPECT_EQ(to_bits(value), 0u);
  dropout(x_at.tensor({5}), y_at.tensor({5}), {}, {.p = 0}, on_row());
  y_at.read(y);
  EXPECT_EQ(to_bits(y[1]), 0x7fffffffu);
  EXPECT_EQ(to_bits(y[2]), 0x80000000u);
  EXPECT_EQ(y[4], -2);
}

TEST_P(DropoutRow, DowngradesInInference) {
  DropoutOptions options{.p = 0.25, .mode = "downgrade_in_infer"};
  const Drawn train = draw({100}, options);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(train.y[i], train.mask[i] ? static_cast<float>(i + 1) : 0.0f);
  options.training = false;
  const Drawn infer = draw({100}, options);
  EXPECT_EQ(infer.random_words, 0u);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(infer.mask[i], 1);
    EXPECT_EQ(infer.y[i], 0.75f * static_cast<float>(i + 1));
  }
}

// With a fixed seed, within five standard deviations: the rate of keeping, of keeping two
// neighbours, of each bit of a mask word, and of what two consecutive calls keep in common.
TEST_P(DropoutRow, MasksLookRandom) {
  constexpr std::size_t kN = 1 << 20;
  for (const double p : {0.1, 0.5}) {
    DropoutOptions options{.p = p};
    options.random.seed = 20261121;
    const Drawn first = draw({kN}, options);
    options.random.offset = first.random_words;
    const Drawn second = draw({kN}, options);
    const double keep = 1 - p;
    const auto expect_rate = [&](std::size_t hits, double rate, double trials, const char* what) {
      EXPECT_NEAR(static_cast<double>(hits), trials * rate,
                  5 * std::sqrt(trials * rate * (1 - rate)))
          << what << ", p " << p;
    };
    std::size_t kept = 0, pairs = 0, both = 0, bit[32] = {};
    for (std::size_t i = 0; i < kN; ++i) {
      kept += first.mask[i];
      bit[i % 32] += first.mask[i];
      both += first.mask[i] & second.mask[i];
      if (i % 2 == 1) pairs += first.mask[i - 1] & first.mask[i];
    }
    expect_rate(kept, keep, kN, "kept");
    expect_rate(pairs, keep * keep, kN / 2, "pairs");
    expect_rate(both, keep * keep, kN, "two calls");
    for (const std::size_t hits : bit) expect_rate(hits, keep, kN / 32, "a bit of the word");
  }
}

// The threshold is exactly where the float comparison turns, for every kind of probability.
TEST(KeepRange, TurnsWhereTheUniformNumberDoes) {
  for (const float p : {0x1p-149f, 0x1p-126f, 0x1p-33f, 0x1p-25f, 0x1p-24f, 0x1.000002p-24f, 0.1f,
                        0.3f, 0.5f, 0.9f, 0.999f, 1 - 0x1p-24f, 1 - 0x1p-23f}) {
    const KeepRange keep = keep_range(RandomLayout::contiguous, p);
    EXPECT_EQ(keep.first, 0u);
    for (int d = -300; d < 300; ++d) {
      const std::uint32_t word = keep.count + static_cast<std::uint32_t>(d);
      EXPECT_EQ(keep.has(word), curand_uniform(word) < 1.0f - p) << p << " word " << word;
    }
    const KeepRange triton = keep_range(RandomLayout::triton, p);
    for (const std::uint32_t turn : {triton.first, triton.first + triton.count})
      for (int d = -300; d < 300; ++d) {
        const std::uint32_t word = turn + static_cast<std::uint32_t>(d);
        EXPECT_EQ(triton.has(word), triton_uniform(word) > p) << p << " word " << word;
      }
  }
}

}  // namespace
}  // namespace twinops::test
