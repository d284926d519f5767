// bfloat16 as CUDA has it; see cuda_fp16.h.
#pragma once

#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/order.hpp"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 low, high;
};
constexpr std::uint16_t __bfloat16_as_ushort(__nv_bfloat16 b) { return b.bits; }
constexpr float __bfloat162float(__nv_bfloat16 b) {
  return std::bit_cast<float>(static_cast<unsigned>(b.bits) << 16);
}
constexpr __nv_bfloat16 __float2bfloat16_rn(float x) {
  if (x != x) return {0x7fff};
  const auto bits = std::bit_cast<unsigned>(x);
  auto above = static_cast<std::uint16_t>(bits >> 16);
  const unsigned rest = bits & 0xffff;
  if (rest > 0x8000 || (rest == 0x8000 && above % 2 == 1)) ++above;  // it may carry, to infinity
  return {above};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline __nv_bfloat162 __hmax2_nan(__nv_bfloat162 a, __nv_bfloat162 b) {
  return twinops::emulator::each_of_two(a, b, [](__nv_bfloat16 x, __nv_bfloat16 y) {
    return twinops::emulator::greater_or_nan(x, y, __bfloat162float);
  });
}
inline __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return twinops::emulator::each_of_two(a, b, [](__nv_bfloat16 x, __nv_bfloat16 y) {
    return twinops::emulator::lesser(x, y, __bfloat162float);
  });
}
