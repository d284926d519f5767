// SSE2, which has no half types: four values through the portable conversions. These and fused()
// are not inlined: they would be most of the code, and of the time that this room takes to compile.
#pragma once

#include <emmintrin.h>

#include "numerics/float16.hpp"

namespace twinops::isa {

template <class Half>
[[gnu::noinline, maybe_unused]] static __m128 load_four(const Half* p) {
  return _mm_setr_ps(widen(p[0]), widen(p[1]), widen(p[2]), widen(p[3]));
}
template <class Half>
[[gnu::noinline, maybe_unused]] static void store_four(Half* p, __m128 v) {
  alignas(16) float lanes[4];
  _mm_store_ps(lanes, v);
  for (int i = 0; i < 4; ++i) p[i] = narrow<Half>(lanes[i]);
}

TWINOPS_INLINE __m128 load_widened(const float16* p) { return load_four(p); }
TWINOPS_INLINE __m128 load_widened(const bfloat16* p) { return load_four(p); }
TWINOPS_INLINE void store_narrowed(float16* p, __m128 v) { store_four(p, v); }
TWINOPS_INLINE void store_narrowed(bfloat16* p, __m128 v) { store_four(p, v); }

// No instruction for it: the C library's, which is exact, lane by lane.
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

// Where one is NaN, the instruction gives its second operand.
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
