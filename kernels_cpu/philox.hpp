// Philox by vectors: sixteen blocks a step, 64 words in the order of elements, whatever the width
// of the instruction set. Only files compiled once an instruction set include this.
#pragma once

#include "kernels_cpu/isa/words.hpp"
#include "kernels_cpu/vec.hpp"
#include "numerics/dropout.hpp"

namespace twinops {

// 32-bit words in 64-bit places, where the multiplier finds and leaves them; the upper halves hold
// what is left over.
template <class Isa>
struct WideWords {
  using Batch = xsimd::batch<std::uint64_t, TWINOPS_ARCH>;
  Batch v;

  WideWords() = default;
  TWINOPS_INLINE WideWords(Batch b) : v(b) {}
  TWINOPS_INLINE explicit WideWords(std::uint32_t word) : v(std::uint64_t{word}) {}
  TWINOPS_INLINE friend WideWords operator^(WideWords a, WideWords b) { return {a.v ^ b.v}; }
  TWINOPS_INLINE friend WideWords multiply_wide(WideWords a, std::uint32_t b, WideWords& high) {
    const Batch product(isa::multiply_low(a.v, Batch(std::uint64_t{b})));
    high = {product >> 32};
    return {product};
  }
};

// What every block of a sequence has in common, spread over vectors once.
template <class Isa>
struct WideSequence {
  WideWords<Isa> subsequence[2];
  struct Keys {
    WideWords<Isa> k0[10], k1[10];
  } keys;

  TWINOPS_INLINE explicit WideSequence(const Sequence& s)
      : subsequence{WideWords<Isa>(static_cast<std::uint32_t>(s.subsequence)),
                    WideWords<Isa>(static_cast<std::uint32_t>(s.subsequence >> 32))} {
    const PhiloxKeys words = philox_keys(s.seed);
    for (int round = 0; round < 10; ++round) {
      keys.k0[round] = WideWords<Isa>(words.k0[round]);
      keys.k1[round] = WideWords<Isa>(words.k1[round]);
    }
  }
};

// Calls f(j, words) with words j, j + 1, ... of the 64 in blocks [block, block + 16).
template <class Isa, class F>
TWINOPS_INLINE void draw_64(const WideSequence<Isa>& s, std::uint64_t block, F&& f) {
  using Wide = WideWords<Isa>;
  using Words = xsimd::batch<std::uint32_t, TWINOPS_ARCH>;
  constexpr int kLanes = static_cast<int>(Words::size), kParts = kLanes / 4;
  // Lane 4 l + i draws block kParts i + l: turned, vector i then holds blocks kParts i and on.
  constexpr auto number = [](int lane) { return std::uint64_t(kParts * (lane % 4) + lane / 4); };
  alignas(64) std::uint64_t even_numbers[kLanes / 2], odd_numbers[kLanes / 2];
  for (int c = 0; c < kLanes / 2; ++c) {
    even_numbers[c] = number(2 * c);
    odd_numbers[c] = number(2 * c + 1);
  }
  const auto draw = [&](const std::uint64_t* numbers, std::uint64_t first) {
    const Wide low(Wide::Batch::load_aligned(numbers) + typename Wide::Batch(first));
    return philox_rounds<Wide>({{low, {low.v >> 32}, s.subsequence[0], s.subsequence[1]}}, s.keys);
  };
#pragma GCC unroll 4
  for (int first = 0; first < 16; first += kLanes) {
    const auto even = draw(even_numbers, block + first), odd = draw(odd_numbers, block + first);
    typename Words::register_type w[4];
    for (int k = 0; k < 4; ++k) w[k] = isa::pair_low(even.w[k].v, odd.w[k].v);
    isa::transpose(w[0], w[1], w[2], w[3]);
    for (int i = 0; i < 4; ++i) f(4 * first + i * kLanes, Vec<std::uint32_t, Isa>(Words(w[i])));
  }
}

// Which of those 64 elements are kept: bit j for element j.
template <class Isa>
TWINOPS_INLINE std::uint64_t draw_64_bits(const WideSequence<Isa>& s, std::uint64_t block,
                                          KeepRange keep) {
  using Words = Vec<std::uint32_t, Isa>;
  const Words first(keep.first), count(keep.count);
  std::uint64_t bits = 0;
  draw_64<Isa>(s, block, [&](int j, Words words) {
    bits |= std::uint64_t{isa::mask_word((words - first < count).m)} << j;
  });
  return bits;
}

}  // namespace twinops
