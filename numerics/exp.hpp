// The exponential function: docs/softmax.md, "exp". exp(x) = m * 2^k with k = rint(x * log2 e), so
// that a sum of exponentials can be moved to another power of two without a rounding. At most 1 ulp
// over every float. Coefficients by scripts/fit_exp_log.py.
#pragma once

#include "numerics/scalar.hpp"

namespace twinops {

template <class F>
struct ExpTable;

template <>
struct ExpTable<float> {
  using Bits = std::uint32_t;
  static constexpr int kBias = 127, kShift = 23;
  static constexpr float kLog2E = 0x1.715476p+0f;
  static constexpr float kLn2High = 0x1.62e43p-1f, kLn2Low = -0x1.05c61p-29f;
  static constexpr float kMagic =
      0x1.8p23f;       // adding it rounds to an integer, kept in the low bits
  struct Polynomial {  // 1, r, r^2, ...
    static constexpr float value[] = {1.0f,           1.0f,           0x1.fffffcp-2f,
                                      0x1.55548cp-3f, 0x1.55585ap-5f, 0x1.123d74p-7f,
                                      0x1.6ab90cp-10f};
  };
  struct NearPolynomial {  // of 2^r: 1, r, r^2, ...
    static constexpr float value[] = {0x1.000002p+0f, 0x1.62e428p-1f, 0x1.ebf914p-3f,
                                      0x1.c6b6ecp-5f, 0x1.3d0d42p-7f, 0x1.5c083p-10f};
  };
  static constexpr float kLow = -104, kHigh = 89;  // beyond, exp is 0 or infinity
  static constexpr float kNormal = 86;             // up to this |x| it is a normal number
};

template <>
struct ExpTable<double> {
  using Bits = std::uint64_t;
  static constexpr int kBias = 1023, kShift = 52;
  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  static constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
  static constexpr double kMagic = 0x1.8p52;
  struct Polynomial {
    static constexpr double value[] = {1.0,
                                       1.0,
                                       0x1.000000000000ap-1,
                                       0x1.55555555554f9p-3,
                                       0x1.55555555507f4p-5,
                                       0x1.1111111127e68p-7,
                                       0x1.6c16c1844a1ffp-10,
                                       0x1.a01a0129bb43dp-13,
                                       0x1.a01999b04be23p-16,
                                       0x1.71df2621deb04p-19,
                                       0x1.28adcc0d8e84bp-22,
                                       0x1.ad7f0b5647ea6p-26};
  };
  static constexpr double kLow = -746, kHigh = 710, kNormal = 707;
};

// exp(x) = mantissa * 2^k, mantissa in [2^-1/2, 2^1/2] give or take a rounding; exponent = kMagic +
// k. For |x| up to 2^21. V: float, double, or a vector of them.
template <class V>
struct ExpParts {
  V mantissa, exponent;
};
// exponent = magic + k. magic: kMagic less an integer of up to 2^22.
template <class V>
TWINOPS_INLINE constexpr ExpParts<V> exp_parts(V x, V magic) {
  using Table = ExpTable<lane_t<V>>;
  const V exponent = fma(x, V(Table::kLog2E), magic);
  const V k = exponent - magic;
  V r = fma(k, V(-Table::kLn2High), x);  // exact
  r = fma(k, V(-Table::kLn2Low), r);
  return {horner<typename Table::Polynomial>(r), exponent};
}

template <class V>
TWINOPS_INLINE constexpr ExpParts<V> exp_parts(V x) {
  return exp_parts(x, V(ExpTable<lane_t<V>>::kMagic));
}

// The same of b^x, b = 2^kLog2E, which is e but for 2^-26 of it: what is left of x is one
// operation, and the polynomial a term shorter. Relative error 2^-22.1. float, or a vector of it.
template <class V>
TWINOPS_INLINE constexpr ExpParts<V> near_exp_parts(V x, V magic) {
  using Table = ExpTable<lane_t<V>>;
  const V exponent = fma(x, V(Table::kLog2E), magic);
  const V r = fma(x, V(Table::kLog2E), magic - exponent);
  return {horner<typename Table::NearPolynomial>(r), exponent};
}

template <bool kNear, class V>
TWINOPS_INLINE constexpr ExpParts<V> power_parts(V x, V magic) {
  if constexpr (kNear)
    return near_exp_parts(x, magic);
  else
    return exp_parts(x, magic);
}

// exp(x), or (kNear) b^x, for every x.
template <bool kNear = false, class V>
TWINOPS_INLINE constexpr V exp(V x) {
  using F = lane_t<V>;
  using Table = ExpTable<F>;
  constexpr auto kOne = typename Table::Bits(Table::kBias) << Table::kShift;
  V y = select(V(Table::kHigh) < x, V(Table::kHigh), x);
  y = select(y < V(Table::kLow), V(Table::kLow), y);
  const ExpParts<V> e = power_parts<kNear>(y, V(Table::kMagic));
  // 2^k may be out of range where exp(x) is not: two factors, and one rounding.
  const V k = e.exponent - V(Table::kMagic);
  const V half = fma(k, V(F(0.5)), V(Table::kMagic));
  const V rest = V(Table::kMagic) + (k - (half - V(Table::kMagic)));
  y = (e.mantissa * exponent_bits(half, kOne)) * exponent_bits(rest, kOne);
  return select(x == x, y, x);
}

// The same bits in half the instructions, for |x| up to kNormal.
template <bool kNear = false, class V>
TWINOPS_INLINE constexpr V normal_exp(V x) {
  const ExpParts<V> e = power_parts<kNear>(x, V(ExpTable<lane_t<V>>::kMagic));
  return exponent_added(e.mantissa, e.exponent);
}

}  // namespace twinops
