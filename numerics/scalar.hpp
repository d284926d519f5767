// The primitives that formulas are written with, for one value. kernels_cpu/vec.hpp gives the same
// names to vectors, so that a formula is spelled once and read by every kernel. Each primitive is
// one correctly rounded IEEE 754 operation or an exact one.
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

// The product of two 32-bit words: returns its low half, gives its high half.
TWINOPS_INLINE constexpr std::uint32_t multiply_wide(std::uint32_t a, std::uint32_t b,
                                                     std::uint32_t& high) {
  const std::uint64_t product = std::uint64_t{a} * b;
  high = static_cast<std::uint32_t>(product >> 32);
  return static_cast<std::uint32_t>(product);
}

}  // namespace twinops
