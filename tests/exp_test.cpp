// numerics/exp.hpp and log.hpp: at most 1 ulp from the real functions, over every float. The real
// functions are the C library's in double, which is good to far less than an ulp of a float. Every
// 37th float is tried; every one with TWINOPS_TEST_EVERY_FLOAT set (minutes).
#include "numerics/exp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "numerics/log.hpp"
#include "tests/support/every_float.hpp"

namespace twinops::test {
namespace {

// How far y is from the real value, in units in the last place of a float (double) of its size.
double ulps(float y, double real) {
  int exponent = 0;
  std::frexp(real, &exponent);
  return std::abs(y - real) / std::ldexp(1.0, std::max(exponent - 24, -149));
}
double ulps(double y, long double real) {
  int exponent = 0;
  std::frexp(real, &exponent);
  return static_cast<double>(std::abs(y - real) / std::ldexp(1.0L, std::max(exponent - 53, -1074)));
}

bool is_good(float y, double real) {
  if (real != real) return y != y;
  if (std::isinf(static_cast<float>(real)) || std::isinf(y))
    return y == static_cast<float>(real) || ulps(std::min(y, 0x1.fffffep127f), real) <= 1;
  return ulps(y, real) <= 1;
}

std::uint64_t float_step() { return std::getenv("TWINOPS_TEST_EVERY_FLOAT") != nullptr ? 1 : 37; }

template <class F, class Real>
void expect_one_ulp(F f, Real real) {
  const std::uint64_t step = float_step();
  const std::uint64_t bad = first_bad_of_all([&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t bits = begin; bits < end; bits += step) {
      const float x = bit_cast<float>(static_cast<std::uint32_t>(bits));
      if (!is_good(f(x), real(static_cast<double>(x)))) return bits;
    }
    return kNothing;
  });
  if (bad == kNothing) return;
  const float x = bit_cast<float>(static_cast<std::uint32_t>(bad));
  ADD_FAILURE() << std::hexfloat << "at " << x << ": " << f(x) << ", really " << real(x);
}

TEST(Exp, IsWithinAnUlpOfEveryFloat) {
  expect_one_ulp([](float x) { return exp(x); }, [](double x) { return std::exp(x); });
}
TEST(Log, IsWithinAnUlpOfEveryFloat) {
  expect_one_ulp([](float x) { return log(x); }, [](double x) { return std::log(x); });
}

TEST(Exp, IsTheSameWhereItIsNormal) {
  const std::uint64_t step = float_step();
  const std::uint64_t bad = first_bad_of_all([&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t bits = begin; bits < end; bits += step) {
      const float x = bit_cast<float>(static_cast<std::uint32_t>(bits));
      if (abs(x) <= ExpTable<float>::kNormal &&
          (to_bits(normal_exp(x)) != to_bits(exp(x)) ||
           to_bits(normal_exp<true>(x)) != to_bits(exp<true>(x))))
        return bits;
    }
    return kNothing;
  });
  EXPECT_EQ(bad, kNothing) << "at " << bit_cast<float>(static_cast<std::uint32_t>(bad));
  for (const double x : {-707.0, -0.5, 0.0, 1e-300, 0.3, 88.0, 707.0})
    EXPECT_EQ(to_bits(normal_exp(x)), to_bits(exp(x))) << x;
}

// Mantissa and exponent of powers of 2^kLog2E: x * kLog2E and what is left of it are exact in
// double.
TEST(NearExp, IsWithinItsBoundOfEveryFloatInReach) {
  using Table = ExpTable<float>;
  const std::uint64_t step = float_step();
  const std::uint64_t bad = first_bad_of_all([&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t bits = begin; bits < end; bits += step) {
      const float x = bit_cast<float>(static_cast<std::uint32_t>(bits));
      if (!(abs(x) <= 0x1p21f)) continue;
      const ExpParts<float> e = near_exp_parts(x, Table::kMagic);
      const double k = double{e.exponent} - double{Table::kMagic};
      const double left = double{x} * double{Table::kLog2E} - k;
      if (k != std::nearbyint(k) || !(std::abs(left) <= 0.51) ||
          !(std::abs(e.mantissa / std::exp2(left) - 1) <= 0x1p-22))
        return bits;
    }
    return kNothing;
  });
  EXPECT_EQ(bad, kNothing) << "at " << bit_cast<float>(static_cast<std::uint32_t>(bad));
}
TEST(NearExp, GoesWhereExpGoes) {
  const float infinity = bit_cast<float>(0x7f800000u);
  EXPECT_EQ(exp<true>(infinity), infinity);
  EXPECT_EQ(exp<true>(-infinity), 0.0f);
  EXPECT_EQ(exp<true>(89.0f), infinity);
  EXPECT_EQ(exp<true>(-104.0f), 0.0f);
  const float nan = exp<true>(infinity - infinity);
  EXPECT_TRUE(nan != nan);
  EXPECT_EQ(exp<true>(-103.0f), 0x1p-149f);
  for (const float x : {-88.0f, -1.0f, -0x1p-20f, 0.0f, 0.5f, 88.0f})
    EXPECT_NEAR(exp<true>(x) / exp(x), 1, 0x1p-18) << x;
}
TEST(NearExp, HasABaseNextToE) {
  EXPECT_LT(std::abs(std::exp2(double{ExpTable<float>::kLog2E}) / std::exp(1.0) - 1), 0x1p-26);
}

TEST(Exp, HasItsKnownValues) {
  const float infinity = bit_cast<float>(0x7f800000u);
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(infinity), infinity);
  EXPECT_EQ(exp(-infinity), 0.0f);
  EXPECT_EQ(exp(89.0f), infinity);
  EXPECT_EQ(exp(-104.0f), 0.0f);
  EXPECT_EQ(exp(-103.0f), 0x1p-149f);
  EXPECT_EQ(exp(0.0), 1.0);
  EXPECT_EQ(exp(710.0), std::exp(710.0));
  EXPECT_EQ(exp(-746.0), 0.0);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_EQ(log(0.0f), -infinity);
  EXPECT_EQ(log(infinity), infinity);
  EXPECT_EQ(to_bits(log(-1.0f)), kNanBits32);
}

TEST(Double, IsWithinAnUlpOfSamples) {
  constexpr unsigned kSeed = 20261121;
  std::mt19937_64 generator(kSeed);
  std::uniform_real_distribution<double> exponents(-708, 709), near_one(0.7, 1.5),
      powers(-300, 300);
  for (int i = 0; i < 1000000; ++i) {
    const double x = exponents(generator);
    ASSERT_LE(ulps(exp(x), std::exp(static_cast<long double>(x))), 1) << x << ", seed " << kSeed;
    const double p = i % 2 == 0 ? near_one(generator) : std::pow(10.0, powers(generator));
    ASSERT_LE(ulps(log(p), std::log(static_cast<long double>(p))), 1) << p << ", seed " << kSeed;
  }
}

}  // namespace
}  // namespace twinops::test
