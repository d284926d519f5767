// The natural logarithm: at most 1 ulp over every float. Coefficients by scripts/fit_exp_log.py.
#pragma once

#include "numerics/nan.hpp"

namespace twinops {

template <class F>
struct LogTable;

template <>
struct LogTable<float> {
  using Bits = std::uint32_t;
  using SignedBits = std::int32_t;
  static constexpr int kShift = 23;
  static constexpr float kLn2High = 0x1.62ep-1f, kLn2Low = 0x1.0bfbe8p-15f;  // k * high is exact
  struct Series {
    static constexpr float value[] = {0x1.555554p-1f, 0x1.999c26p-2f, 0x1.23d3ep-2f,
                                      0x1.f13b18p-3f};
  };
  static constexpr float kLeastNormal = 0x1p-126f, kUp = 0x1p24f;
  static constexpr int kUpBy = 24;
  static constexpr Bits kSqrtHalf = 0x3f3504f3u, kInfinity = 0x7f800000u;
};

template <>
struct LogTable<double> {
  using Bits = std::uint64_t;
  using SignedBits = std::int64_t;
  static constexpr int kShift = 52;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
  struct Series {
    static constexpr double value[] = {
        0x1.555555555557cp-1, 0x1.999999998569p-2,  0x1.2492493df0e43p-2, 0x1.c71c54d0836a4p-3,
        0x1.7465be6dd9646p-3, 0x1.39ad5e8a70b34p-3, 0x1.2e9a6561eee3dp-3};
  };
  static constexpr double kLeastNormal = 0x1p-1022, kUp = 0x1p54;
  static constexpr int kUpBy = 54;
  static constexpr Bits kSqrtHalf = 0x3fe6a09e667f3bcdu, kInfinity = 0x7ff0000000000000u;
};

// log(x * 2^k) of a normal x, without a branch: compilers make vectors of a loop of these.
// x = 2^j (1 + f) with 1 + f in [sqrt 1/2, sqrt 2); with s = f / (2 + f),
// log(1 + f) = f - f^2/2 + s (f^2/2 + series(s^2) s^2).
template <class F>
TWINOPS_INLINE constexpr F log_of_normal(F x, int k) {
  using Table = LogTable<F>;
  using Bits = typename Table::Bits;
  const auto above = static_cast<typename Table::SignedBits>(to_bits(x) - Table::kSqrtHalf);
  const int steps = static_cast<int>(above >> Table::kShift);
  k += steps;
  const F f =
      bit_cast<F>(to_bits(x) - (static_cast<Bits>(above >> Table::kShift) << Table::kShift)) - F(1);
  const F s = f / (F(2) + f), z = s * s;
  const F series = horner<typename Table::Series>(z);
  const F half_square = F(0.5) * f * f;
  const F low = fma(s, fma(series, z, half_square), F(k) * Table::kLn2Low);
  return fma(F(k), Table::kLn2High, f - (half_square - low));
}

// log(x), for every x.
template <class F>
TWINOPS_INLINE constexpr F log(F x) {
  using Table = LogTable<F>;
  const F infinity = bit_cast<F>(Table::kInfinity);
  if (!(x > F(0))) return x == F(0) ? -infinity : canonical(infinity - infinity);
  if (!(x < infinity)) return x;
  if (x < Table::kLeastNormal) return log_of_normal(x * Table::kUp, -Table::kUpBy);
  return log_of_normal(x, 0);
}

}  // namespace twinops
