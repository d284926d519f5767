// The primitives of numerics/scalar.hpp: one rounding of a fused multiply-add, wide products, bits.
#include "numerics/scalar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace twinops {
namespace {

TEST(Fma, RoundsOnce) {
  volatile float a = 1 + 0x1p-12f, b = 1 - 0x1p-12f;
  EXPECT_EQ(fma(a, b, -1.0f), -0x1p-24f);  // two roundings give 0
  volatile double c = 1 + 0x1p-27, d = 1 - 0x1p-27;
  EXPECT_EQ(fma(c, d, -1.0), -0x1p-54);
  volatile float tiny = 0x1p-100f;
  EXPECT_EQ(fma(tiny, tiny, 1.0f), 1.0f);
  EXPECT_EQ(fma(tiny, tiny, 0x1p-149f), 0x1p-149f) << "subnormals are kept";
}

// In double a product of floats is exact; rounding the exact sum once is what an fma is. It is
// exact where the exponents lie close together.
TEST(Fma, EqualsTheExactSumRoundedOnce) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  const auto draw = [&](int bits) {  // up to 2^bits / 2^20, so that sums fit 53 bits
    return static_cast<float>(static_cast<std::int64_t>(random() >> (64 - bits)) -
                              (std::int64_t{1} << (bits - 1))) *
           0x1p-20f;
  };
  for (int i = 0; i < 100000; ++i) {
    const float a = draw(24), b = draw(24), c = draw(24);
    const double exact = static_cast<double>(a) * b + c;
    ASSERT_EQ(to_bits(fma(a, b, c)), to_bits(static_cast<float>(exact)))
        << a << " " << b << " " << c;
  }
}

TEST(MultiplyWide, GivesBothHalves) {
  for (std::uint32_t a : {0u, 1u, 0x12345678u, 0xD2511F53u, 0xffffffffu})
    for (std::uint32_t b : {0u, 1u, 0x9abcdef0u, 0xCD9E8D57u, 0xffffffffu}) {
      std::uint32_t high = 0;
      const std::uint32_t low = multiply_wide(a, b, high);
      EXPECT_EQ(low | std::uint64_t{high} << 32, std::uint64_t{a} * b);
    }
}

TEST(Abs, ClearsTheSignAlone) {
  EXPECT_EQ(to_bits(abs(-0.0f)), 0u);
  EXPECT_EQ(to_bits(abs(bit_cast<float>(0xffc12345u))), 0x7fc12345u);
  EXPECT_EQ(to_bits(abs(-0.0)), 0u);
  EXPECT_EQ(abs(-2.5), 2.5);
}

}  // namespace
}  // namespace twinops
