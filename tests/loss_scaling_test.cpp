// The rule of update_loss_scaling, a line a case; what a loss scale's inverse is.
#include "numerics/loss_scaling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numerics/unscale.hpp"

namespace twinops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr LossScaleRule kRule{3, 2, 2.0f,
                              0.5f};  // raise after 3 finite steps, lower after 2 others

struct Case {
  const char* what;
  LossScale<float> before;
  bool found;
  LossScaleRule rule;
  LossScale<float> after;
};
constexpr Case kCases[] = {
    {"a finite step is counted", {1024, 0, 0}, false, kRule, {1024, 1, 0}},
    {"and again", {1024, 1, 0}, false, kRule, {1024, 2, 0}},
    {"the third raises", {1024, 2, 0}, false, kRule, {2048, 0, 0}},
    {"more than three raise too", {1024, 7, 0}, false, kRule, {2048, 0, 0}},
    {"a finite step ends a run of bad ones", {1024, 0, 1}, false, kRule, {1024, 1, 0}},
    {"raising ends it too", {1024, 2, 1}, false, kRule, {2048, 0, 0}},
    {"a bad step is counted", {1024, 0, 0}, true, kRule, {1024, 0, 1}},
    {"and ends a run of good ones", {1024, 2, 0}, true, kRule, {1024, 0, 1}},
    {"the second lowers", {1024, 2, 1}, true, kRule, {512, 0, 0}},
    {"more than two lower too", {1024, 0, 9}, true, kRule, {512, 0, 0}},
    {"never below 1", {1.5f, 0, 1}, true, kRule, {1, 0, 0}},
    {"1 stays 1", {1, 0, 1}, true, kRule, {1, 0, 0}},
    {"a scale below 1 stays there", {0.25f, 0, 1}, true, kRule, {0.25f, 0, 0}},
    {"another floor", {0.25f, 0, 1}, true, {3, 2, 2, 0.5f, 0.1f}, {0.125f, 0, 0}},
    {"not below it", {0.15f, 0, 1}, true, {3, 2, 2, 0.5f, 0.1f}, {0.1f, 0, 0}},
    {"a floor above 1", {1000, 0, 1}, true, {3, 2, 2, 0.5f, 512}, {512, 0, 0}},
    {"a scale below it", {300, 0, 1}, true, {3, 2, 2, 0.5f, 512}, {300, 0, 0}},
    {"not above the largest float", {kMax, 2, 0}, false, kRule, {kMax, 0, 0}},
    {"up to it", {kMax / 2, 2, 0}, false, kRule, {kMax, 0, 0}},
    {"an infinite scale stays", {kInf, 2, 0}, false, kRule, {kInf, 0, 0}},
    {"every step raises", {8, 0, 0}, false, {1, 1, 4, 0.5f}, {32, 0, 0}},
    {"every bad step lowers", {8, 0, 0}, true, {1, 1, 4, 0.25f}, {2, 0, 0}},
    {"the ratio's product is rounded once",
     {3, 0, 0},
     false,
     {1, 1, 1.1f, 0.5f},
     {3.3000002f, 0, 0}},
    {"the longest count", {8, 2147483646, 0}, false, {2147483647, 1, 2, 0.5f}, {16, 0, 0}},
    {"one before it", {8, 2147483645, 0}, false, {2147483647, 1, 2, 0.5f}, {8, 2147483646, 0}},
};

template <class F>
void expect_equal(LossScale<F> got, LossScale<F> expected) {
  EXPECT_EQ(got.scale, expected.scale);
  EXPECT_EQ(got.good_steps, expected.good_steps);
  EXPECT_EQ(got.bad_steps, expected.bad_steps);
}

TEST(LossScaleRule, Float) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    expect_equal(next_loss_scale(c.before, c.found, c.rule), c.after);
  }
}

TEST(LossScaleRule, Double) {
  const auto wide = [](double scale, int good, int bad) {
    return LossScale<double>{scale, good, bad};
  };
  expect_equal(next_loss_scale(wide(1024, 2, 0), false, kRule), wide(2048, 0, 0));
  expect_equal(next_loss_scale(wide(kMax, 2, 0), false, kRule), wide(2.0 * kMax, 0, 0));
  expect_equal(next_loss_scale(wide(1024, 2, 1), true, kRule), wide(512, 0, 0));
  expect_equal(next_loss_scale(wide(3, 0, 0), false, {1, 1, 1.1f, 0.5f}),
               wide(3 * static_cast<double>(1.1f), 0, 0));
}

TEST(LossScaleRule, ANanScaleBecomesTheCanonicalOneOrStays) {
  const float nan = bit_cast<float>(0xffc01234u);
  const auto lowered = next_loss_scale<float>({nan, 0, 1}, true, kRule);
  EXPECT_EQ(to_bits(lowered.scale), 0x7fffffffu);
  const auto raised = next_loss_scale<float>({nan, 2, 0}, false, kRule);
  EXPECT_EQ(to_bits(raised.scale), to_bits(nan)) << "a product that is not finite is not stored";
}

// Many steps, the two counts never both above zero.
TEST(LossScaleRule, LongRun) {
  LossScale<float> s{32768, 0, 0};
  std::uint32_t random = 1;
  for (int step = 0; step < 100000; ++step) {
    random = random * 1664525u + 1013904223u;
    s = next_loss_scale(s, random >> 28 == 0, kRule);
    ASSERT_TRUE(s.good_steps == 0 || s.bad_steps == 0) << step;
    ASSERT_GE(s.scale, 1.0f);
    ASSERT_LT(s.scale, kInf);
  }
}

// Out of line, or the compiler would divide floats here too.
constexpr std::uint32_t kBlock = 1 << 16;
[[gnu::noinline]] void invert(const float* x, double* y) {
  for (std::uint32_t i = 0; i < kBlock; ++i) y[i] = 1.0 / static_cast<double>(x[i]);
}

// A float's inverse is divided in float, a double's in double: the same for every float.
TEST(InverseScale, OfEveryFloatIsThatOfTheDouble) {
  std::vector<float> x(kBlock);
  std::vector<double> inverse(kBlock);
  for (std::uint32_t block = 0; block < kBlock; ++block) {
    for (std::uint32_t i = 0; i < kBlock; ++i) x[i] = bit_cast<float>(block * kBlock + i);
    invert(x.data(), inverse.data());
    std::uint32_t different = 0;
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      const float a = inverse_scale<float>(x[i]), b = inverse_scale<float>(double{x[i]});
      different += static_cast<float>(inverse[i]) != b && b == b;
      different += to_bits(a) != to_bits(b) && !(a != a && b != b);
    }
    ASSERT_EQ(different, 0u) << "a float from 0x" << std::hex << block << "0000 on";
  }
}

// A scale whose inverse is lost below the least normal number has none; powers of two have one as
// far as there are numbers.
TEST(InverseScale, OfAHugeScaleIsExactOrNaN) {
  for (int k = -120; k <= 200; ++k) {
    const float inverse = inverse_scale<float>(std::ldexp(1.0, k));
    const float power = std::ldexp(1.0f, -k);
    EXPECT_EQ(std::isnan(inverse), k > 149) << k;
    EXPECT_TRUE(k > 149 || inverse == power) << k;
    EXPECT_TRUE(k > 127 || inverse_scale<float>(std::ldexp(1.0f, k)) == power) << k;
    EXPECT_EQ(std::isnan(inverse_scale<float>(std::ldexp(1.5, k))), k >= 126) << k;
  }
  for (double scale : {1e45, 3e38, 1e300, -1e45, std::numeric_limits<double>::infinity()})
    EXPECT_TRUE(std::isnan(inverse_scale<float>(scale))) << scale;
  EXPECT_TRUE(std::isnan(inverse_scale<float>(kInf)));
  EXPECT_TRUE(std::isnan(inverse_scale<double>(kInf)));
  EXPECT_EQ(inverse_scale<double>(1e45), 1 / 1e45);
  EXPECT_TRUE(std::isnan(inverse_scale<double>(std::numeric_limits<double>::max())));
}

}  // namespace
}  // namespace twinops
