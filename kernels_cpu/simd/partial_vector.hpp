// Fewer elements than a vector has lanes, of any stored type:
//
//   copy_partial<kBelow>(to, from, n)      copies n elements, 1 <= n < kBelow, a power of two
//   copy_padded<kLanes>(to, from, n, pad)  the same, and fills a vector's lanes with `pad`
//   load_partial<Isa>(from, n, pad)        loads n elements and `pad` as a vector
//
// Nothing beyond the n elements is read or written. Lanes are stored at once, because a load from
// what several stores have left waits until they are done:
// docs/lab/softmax-cpu.md#short-rows-and-the-ends-of-rows.
#pragma once

#include "kernels_cpu/simd/vec.hpp"

namespace twinops {

// In two pieces that overlap, which is faster than a call of memcpy.
template <int kBelow, class T>
TWINOPS_INLINE void copy_partial(T* to, const T* from, int n) {
  constexpr int kPiece = kBelow / 2;
  if constexpr (kPiece == 1) {
    __builtin_memcpy(to, from, sizeof(T));
  } else if (n >= kPiece) {
    __builtin_memcpy(to, from, kPiece * sizeof(T));
    __builtin_memcpy(to + n - kPiece, from + n - kPiece, kPiece * sizeof(T));
  } else {
    copy_partial<kPiece>(to, from, n);
  }
}

namespace isa {

// Fewer than 16 bytes, padded to 16, loaded in pieces that overlap.
struct PaddedWords {
  std::uint64_t low, high;
};
template <class Word>
TWINOPS_INLINE std::uint64_t word_at(const unsigned char* from) {
  Word word;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}
TWINOPS_INLINE PaddedWords padded_words(const unsigned char* from, int bytes, std::uint64_t pads) {
  if (bytes >= 8) {  // a shift by 64 is none
    const std::uint64_t last = word_at<std::uint64_t>(from + bytes - 8) >> 8 * (15 - bytes) >> 8;
    return {word_at<std::uint64_t>(from), last | pads << 8 * (bytes - 8)};
  }
  std::uint64_t low = 0;
  if (bytes >= 4)
    low = word_at<std::uint32_t>(from) | word_at<std::uint32_t>(from + bytes - 4) >> 8 * (8 - bytes)
                                                                                         << 32;
  else
    for (const int i : {0, bytes / 2, bytes - 1}) low |= std::uint64_t{from[i]} << 8 * i;
  return {low | pads << 8 * bytes, pads};
}

// copy_padded for vectors of up to 16 bytes.
template <int kLanes, class T>
TWINOPS_INLINE void copy_padded_words(T* to, const T* from, int n, T pad) {
  constexpr std::size_t kBytes = kLanes * sizeof(T);
  static_assert(kBytes <= 16);
  std::uint64_t pads = 0;
  for (std::size_t i = 0; i < sizeof(pads); i += sizeof(T))
    __builtin_memcpy(reinterpret_cast<char*>(&pads) + i, &pad, sizeof(T));
  const PaddedWords words = padded_words(reinterpret_cast<const unsigned char*>(from),
                                         n * static_cast<int>(sizeof(T)), pads);
  using Both [[gnu::vector_size(16)]] = std::uint64_t;
  const Both both = {words.low, words.high};
  __builtin_memcpy(to, &both, kBytes);
}

template <int kLanes, class T>
TWINOPS_INLINE void copy_padded(T* to, const T* from, int n, T pad) {
#if defined(__AVX512BW__)
  const auto first = static_cast<std::uint32_t>((1 << n) - 1);
  if constexpr (sizeof(T) == 1) {
    copy_padded_words<kLanes>(to, from, n, pad);
  } else if constexpr (sizeof(T) == 2) {
    const __m512i pads = _mm512_set1_epi16(bit_cast<std::int16_t>(pad));
    const __m512i v = _mm512_mask_loadu_epi16(pads, first, from);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(v));
  } else if constexpr (sizeof(T) == 4) {
    const __m512i pads = _mm512_set1_epi32(bit_cast<std::int32_t>(pad));
    const auto mask = static_cast<__mmask16>(first);
    _mm512_storeu_si512(to, _mm512_mask_loadu_epi32(pads, mask, from));
  } else {
    const __m512i pads = _mm512_set1_epi64(bit_cast<std::int64_t>(pad));
    const auto mask = static_cast<__mmask8>(first);
    _mm512_storeu_si512(to, _mm512_mask_loadu_epi64(pads, mask, from));
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) <= 2) {
    copy_padded_words<kLanes>(to, from, n, pad);
  } else if constexpr (sizeof(T) == 4) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
    const __m256i v = _mm256_maskload_epi32(reinterpret_cast<const int*>(from), mask);
    const __m256i pads = _mm256_set1_epi32(bit_cast<std::int32_t>(pad));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_blendv_epi8(pads, v, mask));
  } else {
    const __m256i lanes = _mm256_setr_epi64x(0, 1, 2, 3);
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lanes);
    const __m256i v = _mm256_maskload_epi64(reinterpret_cast<const long long*>(from), mask);
    const __m256i pads = _mm256_set1_epi64x(bit_cast<std::int64_t>(pad));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_blendv_epi8(pads, v, mask));
  }
#else
  copy_padded_words<kLanes>(to, from, n, pad);
#endif
}

}  // namespace isa

template <class Isa, class T>
TWINOPS_INLINE compute_vec<T, Isa> load_partial(const T* from, int n, T pad = T{}) {
  constexpr int kLanes = compute_vec<T, Isa>::kLanes;
  alignas(64) T elements[kLanes];
  isa::copy_padded<kLanes>(elements, from, n, pad);
  return load<Isa>(elements);
}

}  // namespace twinops
