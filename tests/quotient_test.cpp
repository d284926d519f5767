// quotient(): three operations in place of a division, with its bits. Tried where they are hardest
// to have: quotients as near as can be to the middle between two numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "numerics/softmax.hpp"

namespace twinops {
namespace {

template <class F>
struct Digits;
template <>
struct Digits<float> {
  using Wide = std::uint64_t;
  static constexpr int kCount = 24, kLeast = -149;
};
template <>
struct Digits<double> {
  using Wide = unsigned __int128;
  static constexpr int kCount = 53, kLeast = -1074;
};

template <class F>
class Quotient : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Quotient, Floats);

template <class F>
void expect_division(F a, F b) {
  ASSERT_EQ(to_bits(quotient(a, b, F(1) / b)), to_bits(a / b)) << a << " / " << b;
}

// The inverse of an odd number modulo 2^64.
std::uint64_t inverse_of(std::uint64_t odd) {
  std::uint64_t y = odd;
  for (int i = 0; i < 6; ++i) y *= 2 - odd * y;
  return y;
}

// a / b as integers of kCount digits, a * 2^shift = m * b + r for an odd m of a digit more: the
// quotient is r / b from the middle m + 1/2. 1, 3, 5 and their negatives are the least r there are.
TYPED_TEST(Quotient, NearTheMiddleBetweenTwoNumbers) {
  using F = TypeParam;
  using Wide = typename Digits<F>::Wide;
  constexpr int p = Digits<F>::kCount;
  constexpr unsigned kSeed = 48;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  const std::uint64_t half = std::uint64_t{1} << (p - 1);
  std::int64_t tried = 0;
  const auto try_divisor = [&](std::uint64_t b) {
    for (const int shift : {p, p + 1})
      for (const int r : {1, -1, 3, -3, 5, -5}) {
        const std::uint64_t mask = (std::uint64_t{2} << (shift - 1)) - 1;
        std::uint64_t m = (inverse_of(b) * static_cast<std::uint64_t>(-r)) & mask;
        for (; m < 4 * half; m += mask + 1) {
          if (m < 2 * half) continue;
          const Wide product = Wide(m) * b + static_cast<Wide>(r);
          const auto a = static_cast<std::uint64_t>(product >> shift);
          if (a < half || a >= 2 * half || (Wide(a) << shift) != product) continue;
          ++tried;
          // 2^kLift and more: as a sum of weights.
          expect_division(std::ldexp(F(a), 0), std::ldexp(F(b), 2));
          expect_division(std::ldexp(F(a), -40), std::ldexp(F(b), 30));
        }
      }
  };
  for (std::uint64_t k = 0; k < 200000; ++k) {
    try_divisor(half + 2 * k + 1);
    try_divisor(2 * half - 2 * k - 1);
    try_divisor(half + (random() % half | 1));
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(tried, 400000);
}

// The least and the greatest divisors and dividends, each with each.
TYPED_TEST(Quotient, AtTheEdgesOfABinade) {
  using F = TypeParam;
  const std::uint64_t half = std::uint64_t{1} << (Digits<F>::kCount - 1);
  std::vector<F> numbers;
  for (std::uint64_t k = 0; k < 800; ++k) {
    numbers.push_back(F(half + k));
    numbers.push_back(F(2 * half - 1 - k));
  }
  for (F a : numbers)
    for (F b : numbers) {
      expect_division(a, F(4) * b);
      if (testing::Test::HasFatalFailure()) return;
    }
}

// Quotients that are subnormal numbers, or half the least one, near the middle between two of them.
// In the middle itself either will do. The divisor has no digit below 1, as a sum of weights.
TYPED_TEST(Quotient, OfSubnormalNumbers) {
  using F = TypeParam;
  constexpr int p = Digits<F>::kCount, least = Digits<F>::kLeast;
  constexpr unsigned kSeed = 49;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  int middles = 0;
  const auto expect = [&](F a, F b) {
    const F y = a / b, rest = fma(-y, b, a);
    if (2 * std::abs(rest) != std::ldexp(b, least)) return expect_division(a, b);
    ++middles;
    ASSERT_LE(std::abs(quotient(a, b, F(1) / b) - y), std::ldexp(F(1), least)) << a << " / " << b;
  };
  for (int i = 0; i < 2000000; ++i) {
    const int short_by = static_cast<int>(random() % 20);
    const F b =
        std::ldexp(F((random() >> (64 - p) | std::uint64_t{1} << (p - 1)) >> short_by << short_by),
                   static_cast<int>(random() % 40));
    const auto m = F(random() >> (63 - random() % (p + 1)) >> 1);  // of few digits or many
    const F a = std::ldexp(b * std::ldexp(m + F(0.5), least / 2), least - least / 2);
    expect(a, b);
    expect(std::nextafter(a, F(0)), b);
    expect(std::nextafter(a, F(2)), b);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(middles, 1000);
  expect_division(F(0), std::ldexp(F(1), p));
}

// A chunk's divisor, by its two steps, on both sides of the limit and where nothing is left.
TYPED_TEST(Quotient, OfFarChunks) {
  using F = TypeParam;
  constexpr int digits = Digits<F>::kCount, least = Digits<F>::kLeast;
  const F sum = std::ldexp(F(1.7320508), kLift<F>);
  for (int below = 0; below < -least + 70; ++below) {
    const F max = F(-below * 0.6931471805599453);
    const int n = exponent_of(F(0)) - exponent_of(max);
    const F by = divisor_of_chunk<F>(F(0), sum, max);
    EXPECT_EQ(is_far<F>(by), n > kNearChunk<F>);
    for (F weight : {std::ldexp(F(1.25), kLift<F>), std::ldexp(F(0.75), kLift<F> - 7), F(0)}) {
      const auto divide = Division<F, F>::by(by);
      const F y = is_far<F>(by) ? from_far(divide(weight)) : divide(weight);
      const F exact = std::ldexp(weight / sum, -n);  // rounded once more if it is subnormal
      EXPECT_FALSE(std::signbit(y));
      EXPECT_LE(std::abs(y - exact),
                exact < std::ldexp(F(1), least + digits) ? std::ldexp(F(1), least) : F(0))
          << below << " " << weight;
    }
  }
}

}  // namespace
}  // namespace twinops
