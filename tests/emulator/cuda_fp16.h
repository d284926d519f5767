// float16 as CUDA has it, in arithmetic of its own: what numerics/ says of conversions is held to
// it. A NaN becomes 0x7fff, as on the device.
#pragma once

#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/order.hpp"

struct __half {
  std::uint16_t bits;
};
struct alignas(4) __half2 {
  __half low, high;
};
constexpr __half __ushort_as_half(std::uint16_t bits) { return {bits}; }
constexpr std::uint16_t __half_as_ushort(__half h) { return h.bits; }

namespace twinops::emulator {
constexpr double power_of_two(int n) {
  double y = 1;
  for (; n > 0; --n) y *= 2;
  for (; n < 0; ++n) y /= 2;
  return y;
}
}  // namespace twinops::emulator

constexpr float __half2float(__half h) {
  const int exponent = h.bits >> 10 & 31, fraction = h.bits & 1023;
  const float sign = (h.bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    if (fraction == 0) return sign * std::numeric_limits<float>::infinity();
    return std::bit_cast<float>((h.bits & 0x8000u) << 16 | 0x7f800000u |
                                static_cast<unsigned>(fraction) << 13);
  }
  const double scale = twinops::emulator::power_of_two((exponent == 0 ? 1 : exponent) - 25);
  return sign * static_cast<float>((exponent == 0 ? fraction : fraction + 1024) * scale);
}
constexpr __half __float2half_rn(float x) {
  if (x != x) return {0x7fff};
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<unsigned>(x) >> 16 & 0x8000);
  double y = x < 0 ? -static_cast<double>(x) : static_cast<double>(x);
  if (y >= 65520) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  int exponent = 1;  // of float16: quanta of 2^(exponent - 25)
  while (y >= twinops::emulator::power_of_two(exponent - 14)) ++exponent;
  y /= twinops::emulator::power_of_two(exponent - 25);  // exact
  auto quanta = static_cast<int>(y);
  const double rest = y - quanta;
  if (rest > 0.5 || (rest == 0.5 && quanta % 2 == 1)) ++quanta;
  if (quanta < 1024) return {static_cast<std::uint16_t>(sign | quanta)};
  return {static_cast<std::uint16_t>(sign | (((exponent - 1) << 10) + quanta))};  // it may carry
}
inline __half2 __floats2half2_rn(float low, float high) {
  return {__float2half_rn(low), __float2half_rn(high)};
}
inline float2 __half22float2(__half2 two) {
  return {__half2float(two.low), __half2float(two.high)};
}

inline __half2 __hmax2_nan(__half2 a, __half2 b) {
  return twinops::emulator::each_of_two(a, b, [](__half x, __half y) {
    return twinops::emulator::greater_or_nan(x, y, __half2float);
  });
}
inline __half2 __hmin2(__half2 a, __half2 b) {
  return twinops::emulator::each_of_two(
      a, b, [](__half x, __half y) { return twinops::emulator::lesser(x, y, __half2float); });
}
