// AArch64 with its baseline NEON.
#pragma once

#include <arm_neon.h>

#include "numerics/float16.hpp"

namespace twinops::isa {

TWINOPS_INLINE float32x4_t load_widened(const float16* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits)));
}
TWINOPS_INLINE void store_narrowed(float16* p, float32x4_t v) {
  const uint16x4_t words = vreinterpret_u16_f16(vcvt_f16_f32(v));
  const uint16x4_t number = vmovn_u32(vceqq_f32(v, v));
  vst1_u16(&p->bits, vbsl_u16(number, words, vdup_n_u16(kNanBits16)));
}

TWINOPS_INLINE float32x4_t load_widened(const bfloat16* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(&p->bits), 16));
}
// Rounds to nearest even in the upper half of each lane.
TWINOPS_INLINE uint32x4_t round_upper(uint32x4_t u) {
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  return vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}
TWINOPS_INLINE void store_narrowed(bfloat16* p, float32x4_t v) {
  // As an integer the canonical NaN is the greatest and would overflow; it is reduced to a NaN that
  // rounds to it.
  const int32x4_t u = vminq_s32(vreinterpretq_s32_f32(v), vdupq_n_s32(0x7fff7fff));
  vst1_u16(&p->bits, vshrn_n_u32(round_upper(vreinterpretq_u32_s32(u)), 16));
}

template <class Batch>
TWINOPS_INLINE void load_two_widened(const bfloat16* p, Batch& even, Batch& odd) {
  const uint32x4_t words = vreinterpretq_u32_u16(vld1q_u16(&p->bits));
  even = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
  odd = vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff0000)));
}
TWINOPS_INLINE void store_two_narrowed(bfloat16* p, float32x4_t even, float32x4_t odd) {
  const uint32x4_t low = round_upper(vreinterpretq_u32_f32(even));
  const uint32x4_t high = round_upper(vreinterpretq_u32_f32(odd));
  vst1q_u16(&p->bits, vreinterpretq_u16_u32(vsriq_n_u32(high, low, 16)));
}

constexpr bool kHasFused = true;
TWINOPS_INLINE float32x4_t fused(float32x4_t a, float32x4_t b, float32x4_t c) {
  return vfmaq_f32(c, a, b);
}
TWINOPS_INLINE float64x2_t fused(float64x2_t a, float64x2_t b, float64x2_t c) {
  return vfmaq_f64(c, a, b);
}

// Where one is NaN, so is the result.
TWINOPS_INLINE float32x4_t larger(float32x4_t a, float32x4_t b) { return vmaxq_f32(a, b); }
TWINOPS_INLINE float64x2_t larger(float64x2_t a, float64x2_t b) { return vmaxq_f64(a, b); }

TWINOPS_INLINE float fold_lanes(float32x4_t v) {
  const float32x2_t h = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
TWINOPS_INLINE double fold_lanes(float64x2_t v) {
  return vgetq_lane_f64(v, 0) + vgetq_lane_f64(v, 1);
}
TWINOPS_INLINE float max_lanes(float32x4_t v) { return vmaxvq_f32(v); }
TWINOPS_INLINE double max_lanes(float64x2_t v) { return vmaxvq_f64(v); }

TWINOPS_INLINE bool holds_nan(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
  return vminvq_u32(vandq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b)),
                              vandq_u32(vceqq_f32(c, c), vceqq_f32(d, d)))) == 0;
}
TWINOPS_INLINE bool holds_nan(float64x2_t a, float64x2_t b, float64x2_t c, float64x2_t d) {
  const uint64x2_t numbers = vandq_u64(vandq_u64(vceqq_f64(a, a), vceqq_f64(b, b)),
                                       vandq_u64(vceqq_f64(c, c), vceqq_f64(d, d)));
  return vminvq_u32(vreinterpretq_u32_u64(numbers)) == 0;
}

// NEON has no such stores; these are plain ones.
TWINOPS_INLINE void stream(float* p, float32x4_t v) { vst1q_f32(p, v); }
TWINOPS_INLINE void stream(double* p, float64x2_t v) { vst1q_f64(p, v); }
TWINOPS_INLINE void end_of_streams() {}

}  // namespace twinops::isa
