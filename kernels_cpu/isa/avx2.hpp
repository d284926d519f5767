// AVX2 with FMA and F16C.
#pragma once

#include <immintrin.h>

#include "numerics/float16.hpp"

namespace twinops::isa {

TWINOPS_INLINE __m256 load_widened(const float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TWINOPS_INLINE void store_narrowed(float16* p, __m256 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

TWINOPS_INLINE __m256 load_widened(const bfloat16* p) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}
// Rounds to nearest even in the upper half of each lane.
TWINOPS_INLINE __m256i round_upper(__m256i u) {
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
TWINOPS_INLINE void store_narrowed(bfloat16* p, __m256 v) {
  // As an integer the canonical NaN is the greatest and would overflow; it is reduced to a NaN that
  // rounds to it.
  const __m256i u = _mm256_min_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fff7fff));
  const __m256i rounded = _mm256_srli_epi32(round_upper(u), 16);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
}

template <class Batch>
TWINOPS_INLINE void load_two_widened(const bfloat16* p, Batch& even, Batch& odd) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  odd =
      _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
}
TWINOPS_INLINE void store_two_narrowed(bfloat16* p, __m256 even, __m256 odd) {
  const __m256i low = _mm256_srli_epi32(round_upper(_mm256_castps_si256(even)), 16);
  const __m256i high = round_upper(_mm256_castps_si256(odd));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_blend_epi16(low, high, 0xaa));
}

constexpr bool kHasFused = true;
TWINOPS_INLINE __m256 fused(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
TWINOPS_INLINE __m256d fused(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }

// Where one is NaN, the instruction returns its second operand.
TWINOPS_INLINE __m256 larger(__m256 a, __m256 b) { return _mm256_max_ps(b, a); }
TWINOPS_INLINE __m256d larger(__m256d a, __m256d b) { return _mm256_max_pd(b, a); }

TWINOPS_INLINE float fold_lanes(__m256 v) {
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
TWINOPS_INLINE double fold_lanes(__m256d v) {
  const __m128d h = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
}
TWINOPS_INLINE float max_lanes(__m256 v) {
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
TWINOPS_INLINE double max_lanes(__m256d v) {
  const __m128d h = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_max_sd(h, _mm_unpackhi_pd(h, h)));
}

TWINOPS_INLINE bool holds_nan(__m256 a, __m256 b, __m256 c, __m256 d) {
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q),
                                         _mm256_cmp_ps(c, d, _CMP_UNORD_Q))) != 0;
}
TWINOPS_INLINE bool holds_nan(__m256d a, __m256d b, __m256d c, __m256d d) {
  return _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(a, b, _CMP_UNORD_Q),
                                         _mm256_cmp_pd(c, d, _CMP_UNORD_Q))) != 0;
}

TWINOPS_INLINE void stream(float* p, __m256 v) { _mm256_stream_ps(p, v); }
TWINOPS_INLINE void stream(double* p, __m256d v) { _mm256_stream_pd(p, v); }
TWINOPS_INLINE void end_of_streams() { _mm_sfence(); }

}  // namespace twinops::isa
