// dropout, on every row that this machine has, against the table that Triton's tutorial prints,
// against its own words, and by its statistics. Equality of the kernels over all cases is
// twins_test.cpp.
#include "numerics/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/dropout_row.hpp"

namespace twinops::test {
namespace {

class EveryDropout : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, EveryDropout, testing::ValuesIn(available_rows()), test_name);

// The table that Triton's tutorial on dropout prints: ten elements, p = 0.5.
TEST_P(EveryDropout, DrawsTheMaskOfTritonsTutorial) {
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

TEST_P(EveryDropout, KeepsWhatTheUniformNumberSays) {
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

// A shard reserves what the whole reserves, so that ranks stay in step.
TEST_P(EveryDropout, ReservesWhatItDraws) {
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
  EXPECT_EQ(reserved({0, 8}, {.global_shape = {3, 8}, .start = {3, 0}}), 24u) << "none of its rows";
  EXPECT_EQ(reserved({0, 8}, {.global_shape = {0, 8}, .start = {0, 0}}), 0u);
  EXPECT_EQ(reserved({0, 8}, {.global_shape = {0, 8}, .shared_axes = {0}}), 0u);
  EXPECT_EQ(reserved({3, 5}, {.shared_axes = {1}}), 4u);
  EXPECT_EQ(reserved({100}, {.layout = "strided", .period = 10}), 12u);
  EXPECT_EQ(reserved({100}, {.layout = "triton"}), 0u);
  EXPECT_EQ(reserved({100}, {}, 0), 0u);
  EXPECT_EQ(reserved({100}, {}, 1), 0u);
}

// An empty tensor is work that is done, however large its other dimensions are.
TEST_P(EveryDropout, TakesAnyEmptyTensor) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const OnDevice none(GetParam(), Floats{});
  const OnDevice no_seeds(GetParam(), std::vector<std::uint64_t>{});
  for (const Shape& shape : {Shape{0, kLarge, kLarge}, Shape{kLarge, kLarge, 0}}) {
    DropoutOptions options;
    EXPECT_EQ(dropout(none.tensor(shape), none.tensor(shape), {}, options, on_row()).random_words,
              0u);
    EXPECT_EQ(uniform(none.tensor(shape), {}, on_row()).random_words, 0u);
    if (shape[0] != 0) continue;
    options.random.seeds = no_seeds.tensor({0});
    dropout(none.tensor(shape), none.tensor(shape), {}, options, on_row());
  }
}

// Dropout2d: a channel is kept or dropped as one.
TEST_P(EveryDropout, SharesWordsAlongAxes) {
  DropoutOptions options;
  options.random = {.seed = 6, .shared_axes = {2, 3}};
  const Drawn drawn = draw({5, 7, 4, 9}, options);
  const Words channels = words({35}, {.seed = 6});
  for (std::size_t i = 0; i < drawn.mask.size(); ++i)
    ASSERT_EQ(drawn.mask[i], channels[i / 36] < 0x7fffffc0u) << i;
}

TEST_P(EveryDropout, NothingIsDrawnAtTheEnds) {
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

TEST_P(EveryDropout, DowngradesInInference) {
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
// The scale of a double is made of the double p; which words keep is decided in float.
TEST_P(EveryDropout, ScalesDoublesInDouble) {
  for (const double p : {0.1, 0.2, 0.3, 1.0 / 3}) {
    std::vector<double> x(1000, 1), y(1000);
    const OnDevice x_at(GetParam(), x), y_at(GetParam(), y);
    DropoutOptions options{.p = p};
    const Bytes kept = draw({1000}, options).mask;
    dropout(x_at.tensor({1000}), y_at.tensor({1000}), {}, options, on_row());
    y_at.read(y);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], kept[i] != 0 ? 1 / (1 - p) : 0.0) << p << " " << i;
    options = {.p = p, .mode = "downgrade_in_infer", .training = false};
    dropout(x_at.tensor({1000}), y_at.tensor({1000}), {}, options, on_row());
    y_at.read(y);
    for (double value : y) ASSERT_EQ(value, 1 - p) << p;
  }
}

TEST_P(EveryDropout, MasksLookRandom) {
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
