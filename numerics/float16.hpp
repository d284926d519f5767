// float16 and bfloat16, with no header of CUDA's on the host: storage types, the exact widening to
// float, and the narrowing that rounds once to nearest even and makes every NaN the canonical one.
#pragma once

#include <type_traits>

#include "numerics/nan.hpp"

#if defined(__CUDA_ARCH__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace twinops {

struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

// The type that an element is computed in.
template <class T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class T>
using compute_t = typename ComputeOf<T>::type;

// The least magnitude that narrowing to T turns into infinity (infinity itself where T is not
// narrower).
template <class T>
inline constexpr float kOverflow = bit_cast<float>(0x7f800000u);
template <>
inline constexpr float kOverflow<float16> = 65520.0f;
template <>
inline constexpr float kOverflow<bfloat16> = bit_cast<float>(0x7f7f8000u);
template <>
inline constexpr double kOverflow<double> = bit_cast<double>(0x7ff0000000000000u);

namespace portable {  // what the hardware's conversions must equal, by integer arithmetic

TWINOPS_INLINE constexpr float widen(float16 h) {
  const std::uint32_t sign = (h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31u;
  std::uint32_t fraction = h.bits & 0x3ffu;
  if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  if (fraction == 0) return bit_cast<float>(sign);
  std::uint32_t shifted = 113;  // a subnormal: move its leading bit into the hidden place
  for (; (fraction & 0x400u) == 0; fraction <<= 1) --shifted;
  return bit_cast<float>(sign | shifted << 23 | (fraction & 0x3ffu) << 13);
}

TWINOPS_INLINE constexpr float widen(bfloat16 b) {
  return bit_cast<float>(std::uint32_t{b.bits} << 16);
}

TWINOPS_INLINE constexpr float16 narrow_float16(float x) {
  const std::uint32_t u = to_bits(x) & 0x7fffffffu;
  const auto sign = static_cast<std::uint16_t>(to_bits(x) >> 16 & 0x8000u);
  std::uint32_t h = 0;
  if (u > 0x7f800000u) return {kNanBits16};
  if (u >= to_bits(kOverflow<float16>)) {
    h = 0x7c00u;
  } else if (u >= 0x38800000u) {  // normal in float16
    h = (u + 0xfffu + (u >> 13 & 1u) - 0x38000000u) >> 13;
  } else if (u > 0x33000000u) {  // above half the least subnormal
    const std::uint32_t shift = 126 - (u >> 23), significand = (u & 0x7fffffu) | 0x800000u;
    h = (significand + (1u << (shift - 1)) - 1 + (significand >> shift & 1u)) >> shift;
  }
  return {static_cast<std::uint16_t>(sign | h)};
}

TWINOPS_INLINE constexpr bfloat16 narrow_bfloat16(float x) {
  const std::uint32_t u = to_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {kNanBits16};
  return {static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}

}  // namespace portable

TWINOPS_INLINE constexpr float widen(float x) { return x; }
TWINOPS_INLINE constexpr double widen(double x) { return x; }
TWINOPS_INLINE constexpr float widen(bfloat16 x) { return portable::widen(x); }
TWINOPS_INLINE constexpr float widen(float16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  return portable::widen(x);
#endif
}

// y, stored as a T: one rounding, and the canonical NaN. The device's own conversions give that NaN
// (tests/float16_test.cu walks every float).
template <class T>
TWINOPS_INLINE constexpr T narrow(compute_t<T> y) {
  return canonical(y);
}
template <>
TWINOPS_INLINE constexpr float16 narrow<float16>(float y) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(y))};
#else
  return portable::narrow_float16(y);
#endif
}
template <>
TWINOPS_INLINE constexpr bfloat16 narrow<bfloat16>(float y) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(y))};
#else
  return portable::narrow_bfloat16(y);
#endif
}

// narrow() of two values, side by side in a word.
template <class T>
TWINOPS_INLINE std::uint32_t narrow_two(float low, float high) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float16>) {
    const __half2 two = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&two);
  } else {
    const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&two);
  }
#else
  return static_cast<std::uint32_t>(narrow<T>(low).bits) |
         static_cast<std::uint32_t>(narrow<T>(high).bits) << 16;
#endif
}

}  // namespace twinops
