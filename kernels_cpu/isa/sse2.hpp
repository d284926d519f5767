// SSE2, which has no half types: four values through the portable conversions.
#pragma once

#include <emmintrin.h>

#include "numerics/float16.hpp"

namespace twinops::isa {

template <class Half>
TWINOPS_INLINE __m128 load_four(const Half* p) {
  return _mm_setr_ps(widen(p[0]), widen(p[1]), widen(p[2]), widen(p[3]));
}
template <class Half>
TWINOPS_INLINE void store_four(Half* p, __m128 v) {
  alignas(16) float lanes[4];
  _mm_store_ps(lanes, v);
  for (int i = 0; i < 4; ++i) p[i] = narrow<Half>(lanes[i]);
}

TWINOPS_INLINE __m128 load_widened(const float16* p) { return load_four(p); }
TWINOPS_INLINE __m128 load_widened(const bfloat16* p) { return load_four(p); }
TWINOPS_INLINE void store_narrowed(float16* p, __m128 v) { store_four(p, v); }
TWINOPS_INLINE void store_narrowed(bfloat16* p, __m128 v) { store_four(p, v); }

}  // namespace twinops::isa
