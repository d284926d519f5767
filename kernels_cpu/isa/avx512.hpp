// AVX-512 F, CD, DQ, BW with FMA and F16C. (The set's own bfloat16 conversion flushes subnormals.)
#pragma once

#include <immintrin.h>

#include "numerics/float16.hpp"

namespace twinops::isa {

TWINOPS_INLINE __m512 load_widened(const float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TWINOPS_INLINE void store_narrowed(float16* p, __m512 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

TWINOPS_INLINE __m512 load_widened(const bfloat16* p) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}
// Rounds to nearest even in the upper half of each lane.
TWINOPS_INLINE __m512i round_upper(__m512i u) {
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
}
TWINOPS_INLINE void store_narrowed(bfloat16* p, __m512 v) {
  // As an integer the canonical NaN is the greatest and would overflow; it is reduced to a NaN that
  // rounds to it.
  const __m512i u = _mm512_min_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fff7fff));
  const __m512i rounded = _mm512_srli_epi32(round_upper(u), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(rounded));
}

template <class Batch>
TWINOPS_INLINE void load_two_widened(const bfloat16* p, Batch& even, Batch& odd) {
  const __m512i words = _mm512_loadu_si512(p);
  even = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  odd =
      _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}
TWINOPS_INLINE void store_two_narrowed(bfloat16* p, __m512 even, __m512 odd) {
  const __m512i low = _mm512_srli_epi32(round_upper(_mm512_castps_si512(even)), 16);
  const __m512i high = round_upper(_mm512_castps_si512(odd));
  _mm512_storeu_si512(p, _mm512_mask_mov_epi16(low, 0xaaaaaaaa, high));
}

constexpr bool kHasFused = true;
TWINOPS_INLINE __m512 fused(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
TWINOPS_INLINE __m512d fused(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }

// Where one is NaN, the instruction returns its second operand.
TWINOPS_INLINE __m512 larger(__m512 a, __m512 b) { return _mm512_max_ps(b, a); }
TWINOPS_INLINE __m512d larger(__m512d a, __m512d b) { return _mm512_max_pd(b, a); }

TWINOPS_INLINE float fold_lanes(__m512 v) {
  const __m256 q = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(q), _mm256_extractf128_ps(q, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
TWINOPS_INLINE double fold_lanes(__m512d v) {
  const __m256d q = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  const __m128d h = _mm_add_pd(_mm256_castpd256_pd128(q), _mm256_extractf128_pd(q, 1));
  return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
}
TWINOPS_INLINE float max_lanes(__m512 v) {
  const __m256 q = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(q), _mm256_extractf128_ps(q, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
TWINOPS_INLINE double max_lanes(__m512d v) {
  const __m256d q = _mm256_max_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  const __m128d h = _mm_max_pd(_mm256_castpd256_pd128(q), _mm256_extractf128_pd(q, 1));
  return _mm_cvtsd_f64(_mm_max_sd(h, _mm_unpackhi_pd(h, h)));
}

TWINOPS_INLINE bool holds_nan(__m512 a, __m512 b, __m512 c, __m512 d) {
  return !_kortestz_mask16_u8(_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q),
                              _mm512_cmp_ps_mask(c, d, _CMP_UNORD_Q));
}
TWINOPS_INLINE bool holds_nan(__m512d a, __m512d b, __m512d c, __m512d d) {
  return !_kortestz_mask8_u8(_mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q),
                             _mm512_cmp_pd_mask(c, d, _CMP_UNORD_Q));
}

TWINOPS_INLINE void stream(float* p, __m512 v) { _mm512_stream_ps(p, v); }
TWINOPS_INLINE void stream(double* p, __m512d v) { _mm512_stream_pd(p, v); }
TWINOPS_INLINE void end_of_streams() { _mm_sfence(); }

}  // namespace twinops::isa
