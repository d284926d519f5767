// SSE2, which has no half types. float16 and fused() are not inlined: they would be most of the
// code and of its compile time.
#pragma once

#include <emmintrin.h>

#include "numerics/float16.hpp"

namespace twinops::isa {

[[gnu::noinline, maybe_unused]] static __m128 load_widened(const float16* p) {
  const __m128i words = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i h = _mm_unpacklo_epi16(words, _mm_setzero_si128());
  const __m128i size = _mm_and_si128(h, _mm_set1_epi32(0x7fff));
  const __m128i sign = _mm_slli_epi32(_mm_xor_si128(h, size), 16);
  // With a float's bias in place of its own; exact, subnormals too.
  const __m128 moved =
      _mm_mul_ps(_mm_castsi128_ps(_mm_slli_epi32(size, 13)), _mm_set1_ps(0x1p112f));
  const __m128i not_finite = _mm_cmpgt_epi32(size, _mm_set1_epi32(0x7bff));
  const __m128i exponent = _mm_and_si128(not_finite, _mm_set1_epi32(0x7f800000));
  return _mm_or_ps(moved, _mm_castsi128_ps(_mm_or_si128(sign, exponent)));
}
TWINOPS_INLINE __m128i either(__m128i condition, __m128i yes, __m128i no) {
  return _mm_or_si128(_mm_and_si128(condition, yes), _mm_andnot_si128(condition, no));
}
[[gnu::noinline, maybe_unused]] static void store_narrowed(float16* p, __m128 v) {
  const __m128i u = _mm_and_si128(_mm_castps_si128(v), _mm_set1_epi32(0x7fffffff));
  const __m128i sign = _mm_srai_epi32(_mm_xor_si128(_mm_castps_si128(v), u), 16);
  // A normal result: the bias is exchanged and rounded to nearest even.
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(u, 13), _mm_set1_epi32(1));
  const __m128i rounded = _mm_add_epi32(u, _mm_add_epi32(odd, _mm_set1_epi32(0xfff - 0x38000000)));
  const __m128i normal = _mm_srli_epi32(rounded, 13);
  // A subnormal result: at 0.5 a float's last place is a half's, so that the sum is rounded there.
  const __m128 half = _mm_set1_ps(0.5f);
  const __m128i subnormal = _mm_sub_epi32(_mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(u), half)),
                                          _mm_castps_si128(half));
  __m128i h = either(_mm_cmpgt_epi32(_mm_set1_epi32(0x38800000), u), subnormal, normal);
  // From 65520 on, infinity; or the canonical NaN, which has no sign.
  h = either(_mm_cmpgt_epi32(u, _mm_set1_epi32(0x477fefff)), _mm_set1_epi32(0x7c00), h);
  h = either(_mm_cmpgt_epi32(u, _mm_set1_epi32(0x7f800000)), _mm_set1_epi32(kNanBits16), h);
  const __m128i words = _mm_or_si128(h, sign);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi32(words, words));
}

TWINOPS_INLINE __m128 load_widened(const bfloat16* p) {
  const __m128i words = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), words));
}
// Rounds to nearest even in the upper half of each lane.
TWINOPS_INLINE __m128i round_upper(__m128i u) {
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(u, 16), _mm_set1_epi32(1));
  return _mm_add_epi32(u, _mm_add_epi32(odd, _mm_set1_epi32(0x7fff)));
}
TWINOPS_INLINE void store_narrowed(bfloat16* p, __m128 v) {
  // The canonical NaN would overflow, but not without its lower half.
  const __m128i u = _mm_castps_si128(v), nan = _mm_castps_si128(_mm_cmpunord_ps(v, v));
  const __m128i rounded = round_upper(_mm_andnot_si128(_mm_srli_epi32(nan, 16), u));
  const __m128i upper = _mm_srai_epi32(rounded, 16);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi32(upper, upper));
}

template <class Batch>
TWINOPS_INLINE void load_two_widened(const bfloat16* p, Batch& even, Batch& odd) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  even = _mm_castsi128_ps(_mm_slli_epi32(words, 16));
  odd = _mm_castsi128_ps(_mm_and_si128(words, _mm_set1_epi32(static_cast<int>(0xffff0000))));
}
TWINOPS_INLINE void store_two_narrowed(bfloat16* p, __m128 even, __m128 odd) {
  const __m128i low = _mm_srli_epi32(round_upper(_mm_castps_si128(even)), 16);
  const __m128i high = _mm_and_si128(round_upper(_mm_castps_si128(odd)),
                                     _mm_set1_epi32(static_cast<int>(0xffff0000)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_or_si128(low, high));
}

constexpr bool kHasFused = false;
// There is no instruction for it. The C library's function is exact, lane by lane.
[[gnu::noinline, maybe_unused]] static __m128 fused(__m128 a, __m128 b, __m128 c) {
  alignas(16) float x[4], y[4], z[4];
  _mm_store_ps(x, a);
  _mm_store_ps(y, b);
  _mm_store_ps(z, c);
  for (int i = 0; i < 4; ++i) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
  return _mm_load_ps(z);
}
[[gnu::noinline, maybe_unused]] static __m128d fused(__m128d a, __m128d b, __m128d c) {
  alignas(16) double x[2], y[2], z[2];
  _mm_store_pd(x, a);
  _mm_store_pd(y, b);
  _mm_store_pd(z, c);
  for (int i = 0; i < 2; ++i) z[i] = __builtin_fma(x[i], y[i], z[i]);
  return _mm_load_pd(z);
}

// Where one is NaN, the instruction returns its second operand.
TWINOPS_INLINE __m128 larger(__m128 a, __m128 b) { return _mm_max_ps(b, a); }
TWINOPS_INLINE __m128d larger(__m128d a, __m128d b) { return _mm_max_pd(b, a); }

TWINOPS_INLINE float fold_lanes(__m128 v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
TWINOPS_INLINE double fold_lanes(__m128d v) {
  return _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v)));
}
TWINOPS_INLINE float max_lanes(__m128 v) {
  v = _mm_max_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps(v, v, 1)));
}
TWINOPS_INLINE double max_lanes(__m128d v) {
  return _mm_cvtsd_f64(_mm_max_sd(v, _mm_unpackhi_pd(v, v)));
}

TWINOPS_INLINE bool holds_nan(__m128 a, __m128 b, __m128 c, __m128 d) {
  return _mm_movemask_ps(_mm_or_ps(_mm_cmpunord_ps(a, b), _mm_cmpunord_ps(c, d))) != 0;
}
TWINOPS_INLINE bool holds_nan(__m128d a, __m128d b, __m128d c, __m128d d) {
  return _mm_movemask_pd(_mm_or_pd(_mm_cmpunord_pd(a, b), _mm_cmpunord_pd(c, d))) != 0;
}

TWINOPS_INLINE void stream(float* p, __m128 v) { _mm_stream_ps(p, v); }
TWINOPS_INLINE void stream(double* p, __m128d v) { _mm_stream_pd(p, v); }
TWINOPS_INLINE void end_of_streams() { _mm_sfence(); }

}  // namespace twinops::isa
