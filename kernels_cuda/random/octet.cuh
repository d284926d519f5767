// An octet: eight neighbouring elements. Its random words, and its loads and stores, 16 bytes at a
// time where the memory is aligned.
#pragma once

#include <cstring>

#include "kernels_cuda/random/draw.cuh"
#include "numerics/float16.hpp"
#include "operators/random.hpp"

namespace twinops {

// Words e to e + 7 out of the two or three groups of four that hold them.
template <class Group>
__device__ __forceinline__ void words_of_groups(std::uint64_t e, Group&& group,
                                                std::uint32_t (&words)[8]) {
  std::uint32_t w[12];
#pragma unroll
  for (int g = 0; g < 3; ++g) {
    if (g == 2 && e % 4 == 0) {
      w[8] = w[9] = w[10] = w[11] = 0;
      continue;
    }
    const PhiloxBlock<std::uint32_t> drawn = group(e / 4 + g);
#pragma unroll
    for (int k = 0; k < 4; ++k) w[4 * g + k] = drawn.w[k];
  }
#pragma unroll
  for (int j = 0; j < 11; ++j) w[j] = e & 1 ? w[j + 1] : w[j];
#pragma unroll
  for (int j = 0; j < 8; ++j) words[j] = e & 2 ? w[j + 2] : w[j];
}

// The words of elements e to e + 7, as place_of() in numerics/random.hpp says.
__device__ __forceinline__ void draw_octet(const RandomArguments& random, const Sequence& s,
                                           std::uint64_t e, std::uint32_t (&words)[8]) {
  if (random.layout == RandomLayout::triton) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
      words[j] = philox_block(s.seed, s.subsequence, s.block + e + static_cast<unsigned>(j)).w[0];
    return;
  }
  const bool strided = random.layout == RandomLayout::strided;
  words_of_groups(
      e,
      [&](std::uint64_t q) {
        const Quotient turn = strided ? divided(q, random.period) : Quotient{q, 0};
        return philox_block(s.seed, s.subsequence + turn.rest, s.block + turn.quotient);
      },
      words);
}

template <class T>
__device__ __forceinline__ bool is_aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

template <class T>
__device__ __forceinline__ void load_octet(const T* from, compute_t<T> (&v)[8]) {
  constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
  if (is_aligned(from)) {
    T elements[8];
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const uint4 word = __ldg(reinterpret_cast<const uint4*>(from) + k);
      memcpy(elements + k * 8 / kWords, &word, sizeof(word));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = widen(elements[j]);
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) v[j] = widen(from[j]);
}

template <class T>
__device__ __forceinline__ void store_octet(T* to, const compute_t<T> (&v)[8]) {
  constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
  if (is_aligned(to)) {
    T elements[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) elements[j] = narrow<T>(v[j]);
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      uint4 word;
      memcpy(&word, elements + k * 8 / kWords, sizeof(word));
      reinterpret_cast<uint4*>(to)[k] = word;
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) to[j] = narrow<T>(v[j]);
}

}  // namespace twinops
