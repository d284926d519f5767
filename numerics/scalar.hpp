// The primitives that formulas are written with, for one value. kernels_cpu/simd/vec.hpp gives the
// same names to vectors, so that a formula is spelled once and read by every kernel. Each primitive
// is one correctly rounded IEEE 754 operation or an exact one.
#pragma once

#include <cstdint>

#include "numerics/qualifiers.hpp"

namespace twinops {

template <class To, class From>
TWINOPS_INLINE constexpr To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// The type of one value of V: V itself, or a lane of the vector V.
template <class V>
struct LaneOf {
  using type = V;
};
template <class V>
using lane_t = typename LaneOf<V>::type;

TWINOPS_INLINE constexpr std::uint32_t to_bits(float x) { return bit_cast<std::uint32_t>(x); }
TWINOPS_INLINE constexpr std::uint64_t to_bits(double x) { return bit_cast<std::uint64_t>(x); }

TWINOPS_INLINE constexpr float abs(float x) { return __builtin_fabsf(x); }
TWINOPS_INLINE constexpr double abs(double x) { return __builtin_fabs(x); }

TWINOPS_INLINE constexpr float select(bool condition, float yes, float no) {
  return condition ? yes : no;
}
TWINOPS_INLINE constexpr double select(bool condition, double yes, double no) {
  return condition ? yes : no;
}

// a * b + c, rounded once.
#if defined(__CUDA_ARCH__)
TWINOPS_INLINE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
TWINOPS_INLINE double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
#else
TWINOPS_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TWINOPS_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif

// a / b for a >= 0, by inverse = 1 / b, which serves many a: faster than a division, and its bits
// where the quotient is a normal number. Where it is a subnormal one and b has no bit below 1, a
// quotient in the middle between two numbers may be either: docs/softmax.md, "The division".
template <class V>
TWINOPS_INLINE constexpr V quotient(V a, V b, V inverse) {
  const V q = a * inverse;
  return fma(fma(q, -b, a), inverse, q);
}

// The larger of two; which one, where one is NaN or both are zeros, is not said.
#if defined(__CUDA_ARCH__)
TWINOPS_INLINE float larger(float a, float b) { return fmaxf(a, b); }
TWINOPS_INLINE double larger(double a, double b) { return fmax(a, b); }
#else
TWINOPS_INLINE constexpr float larger(float a, float b) { return a < b ? b : a; }
TWINOPS_INLINE constexpr double larger(double a, double b) { return a < b ? b : a; }
#endif

// The float whose bits are those of t, moved up to the exponent's place, plus `add`.
TWINOPS_INLINE constexpr float exponent_bits(float t, std::uint32_t add) {
  return bit_cast<float>((to_bits(t) << 23) + add);
}
TWINOPS_INLINE constexpr double exponent_bits(double t, std::uint64_t add) {
  return bit_cast<double>((to_bits(t) << 52) + add);
}

// y, with the low bits of t added to its exponent.
TWINOPS_INLINE constexpr float exponent_added(float y, float t) {
  return bit_cast<float>(to_bits(y) + (to_bits(t) << 23));
}
TWINOPS_INLINE constexpr double exponent_added(double y, double t) {
  return bit_cast<double>(to_bits(y) + (to_bits(t) << 52));
}

// Coefficients[0] + Coefficients[1] x + ... by Horner's rule, a fused multiply-add a term.
// Coefficients: a type with a constexpr array `value`, lowest power first.
template <class Coefficients, int kFirst = 0, class V>
TWINOPS_INLINE constexpr V horner(V x) {
  constexpr int kTerms = sizeof(Coefficients::value) / sizeof(Coefficients::value[0]);
  constexpr lane_t<V> c = Coefficients::value[kFirst];
  if constexpr (kFirst + 1 == kTerms)
    return V(c);
  else
    return fma(horner<Coefficients, kFirst + 1>(x), x, V(c));
}

// The product of two 32-bit words: returns its low half, gives its high half.
TWINOPS_INLINE constexpr std::uint32_t multiply_wide(std::uint32_t a, std::uint32_t b,
                                                     std::uint32_t& high) {
  const std::uint64_t product = std::uint64_t{a} * b;
  high = static_cast<std::uint32_t>(product >> 32);
  return static_cast<std::uint32_t>(product);
}

}  // namespace twinops
