// The primitives on 32-bit words that xsimd lacks, from the instruction set that this object is
// compiled for:
//
//   multiply_low(a, b)   in each 64-bit place, the product of the low 32-bit words
//   pair_low(even, odd)  the low words of both, alternating
//   unpack_pairs(a, b)   in each 128-bit part: a = the first places of both, b = the second places
//   mask_word(m)         a bit for each lane, as the low bits of a word
//   lanes_of(bits)       the reverse
//   zero_bytes(p)        a mask of floats or doubles: whether byte p[lane] is 0
#pragma once

#include "kernels_cpu/simd/vec.hpp"

namespace twinops::isa {

#if defined(__AVX512BW__)

TWINOPS_INLINE __m512i multiply_low(__m512i a, __m512i b) { return _mm512_mul_epu32(a, b); }
TWINOPS_INLINE __m512i pair_low(__m512i even, __m512i odd) {
  return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}
TWINOPS_INLINE void unpack_pairs(__m512i& a, __m512i& b) {
  const __m512i first = _mm512_unpacklo_epi64(a, b);
  b = _mm512_unpackhi_epi64(a, b);
  a = first;
}

#elif defined(__AVX2__)

TWINOPS_INLINE __m256i multiply_low(__m256i a, __m256i b) { return _mm256_mul_epu32(a, b); }
TWINOPS_INLINE __m256i pair_low(__m256i even, __m256i odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
TWINOPS_INLINE void unpack_pairs(__m256i& a, __m256i& b) {
  const __m256i first = _mm256_unpacklo_epi64(a, b);
  b = _mm256_unpackhi_epi64(a, b);
  a = first;
}

#elif defined(__SSE2__)

TWINOPS_INLINE __m128i multiply_low(__m128i a, __m128i b) { return _mm_mul_epu32(a, b); }
TWINOPS_INLINE __m128i pair_low(__m128i even, __m128i odd) {
  const __m128i low = _mm_set1_epi64x(0xffffffff);
  return _mm_or_si128(_mm_and_si128(even, low), _mm_slli_epi64(odd, 32));
}
TWINOPS_INLINE void unpack_pairs(__m128i& a, __m128i& b) {
  const __m128i first = _mm_unpacklo_epi64(a, b);
  b = _mm_unpackhi_epi64(a, b);
  a = first;
}

#elif defined(__aarch64__)

TWINOPS_INLINE uint64x2_t multiply_low(uint64x2_t a, uint64x2_t b) {
  return vmull_u32(vmovn_u64(a), vmovn_u64(b));
}
TWINOPS_INLINE uint32x4_t pair_low(uint64x2_t even, uint64x2_t odd) {
  return vreinterpretq_u32_u64(vsliq_n_u64(even, odd, 32));
}
TWINOPS_INLINE void unpack_pairs(uint32x4_t& a, uint32x4_t& b) {
  const uint64x2_t x = vreinterpretq_u64_u32(a), y = vreinterpretq_u64_u32(b);
  a = vreinterpretq_u32_u64(vtrn1q_u64(x, y));
  b = vreinterpretq_u32_u64(vtrn2q_u64(x, y));
}

#endif

// A mask as bits, and bits as a mask.
template <class T, class Arch>
TWINOPS_INLINE std::uint32_t mask_word(xsimd::batch_bool<T, Arch> m) {
#if defined(__AVX512BW__)
  return static_cast<std::uint32_t>(m.data);
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(m)));
#elif defined(__SSE2__)
  return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(m)));
#elif defined(__aarch64__)
  const uint32x4_t place = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(m, place));
#endif
}

// Lane j of the answer is bit j; T: float or double.
template <class T, class Arch>
TWINOPS_INLINE xsimd::batch_bool<T, Arch> lanes_of(std::uint64_t bits) {
  using Bool = xsimd::batch_bool<T, Arch>;
#if defined(__AVX512BW__)
  return Bool(static_cast<typename Bool::register_type>(bits));
#else
  using Word = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Batch = xsimd::batch<Word, Arch>;
  alignas(64) constexpr Word kPlaces[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  const Batch places = Batch::load_aligned(kPlaces);
  // Not xsimd's cast of masks: its name changed between releases.
  return twinops::bit_cast<Bool>((Batch(static_cast<Word>(bits)) & places) == places);
#endif
}

// As many bytes as a batch has lanes are read.
template <class T, class Arch>
TWINOPS_INLINE xsimd::batch_bool<T, Arch> zero_bytes(const std::uint8_t* p) {
  using Bool = xsimd::batch_bool<T, Arch>;
  constexpr bool kIsFloat = sizeof(T) == 4;
  std::uint64_t bytes = 0;
  __builtin_memcpy(&bytes, p, Bool::size < 8 ? Bool::size : 8);
#if defined(__AVX512BW__)
  if constexpr (kIsFloat) {
    __m128i sixteen;
    __builtin_memcpy(&sixteen, p, sizeof(sixteen));
    const __m512i wide = _mm512_cvtepu8_epi32(sixteen);
    return Bool(_mm512_testn_epi32_mask(wide, wide));
  } else {
    const __m512i wide = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<std::int64_t>(bytes)));
    return Bool(_mm512_testn_epi64_mask(wide, wide));
  }
#elif defined(__AVX2__)
  const __m128i loaded = _mm_cvtsi64_si128(static_cast<std::int64_t>(bytes));
  const __m256i zero = _mm256_setzero_si256();
  if constexpr (kIsFloat)
    return twinops::bit_cast<Bool>(_mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(loaded), zero));
  else
    return twinops::bit_cast<Bool>(_mm256_cmpeq_epi64(_mm256_cvtepu8_epi64(loaded), zero));
#elif defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128();
  const __m128i loaded = _mm_cvtsi64_si128(static_cast<std::int64_t>(bytes));
  const __m128i words = _mm_unpacklo_epi16(_mm_unpacklo_epi8(loaded, zero), zero);
  return twinops::bit_cast<Bool>(
      _mm_cmpeq_epi32(kIsFloat ? words : _mm_unpacklo_epi32(words, words), zero));
#elif defined(__aarch64__)
  const uint32x4_t words = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
  if constexpr (kIsFloat)
    return Bool(vceqq_u32(words, vdupq_n_u32(0)));
  else
    return Bool(vceqq_u64(vmovl_u32(vget_low_u32(words)), vdupq_n_u64(0)));
#endif
}

}  // namespace twinops::isa
