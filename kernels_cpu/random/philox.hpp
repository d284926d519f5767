// Philox by vectors: 64 or 128 words a step in the order of elements, whatever the width of the
// instruction set. Included only by files that are compiled once for each instruction set.
//
// A round costs a vector of blocks two multiplications, two shifts and four exclusive ors: words
// lie in 64-bit places where the multiplier finds them, half of the first three rounds is done once
// for all blocks (PhiloxFamily), several vectors go in step and hide one another's latency, and two
// unpackings bring the words into order. Cycles, and what was tried:
// docs/lab/dropout-cpu.md#how-a-philox-round-is-drawn-by-vectors.
#pragma once

#include "kernels_cpu/simd/vec.hpp"
#include "kernels_cpu/simd/words.hpp"
#include "numerics/random.hpp"

namespace twinops {

// Vectors of blocks that go in step, each operation for all of them; and groups of such vectors
// that take turns, round by round. A vector of blocks takes four registers.
#if defined(__AVX512BW__) || defined(__aarch64__)
inline constexpr int kVectorsInStep = 4, kGroups = 1;  // 32 registers
#elif defined(__AVX2__)
inline constexpr int kVectorsInStep = 1, kGroups = 8;  // spills cost less than waiting
#else
inline constexpr int kVectorsInStep = 1, kGroups = 4;
#endif

// 32-bit words in 64-bit places. The upper halves hold anything.
template <class Isa>
struct WideWords {
  using Batch = xsimd::batch<std::uint64_t, TWINOPS_ARCH>;
  static constexpr int kVectors = kVectorsInStep;
  Batch v[kVectors];

  WideWords() = default;
  TWINOPS_INLINE explicit WideWords(Batch all) : WideWords(each([&](int) { return all; })) {}
  template <class F>
  TWINOPS_INLINE static WideWords each(F&& f) {
    WideWords words;
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) words.v[k] = f(k);
    return words;
  }
  TWINOPS_INLINE friend WideWords operator^(WideWords a, WideWords b) {
    return each([&](int k) { return a.v[k] ^ b.v[k]; });
  }
  TWINOPS_INLINE friend WideWords multiply_wide(WideWords a, std::uint32_t b, WideWords& high) {
    const Batch factor(std::uint64_t{b});
    const auto product = each([&](int k) { return Batch(isa::multiply_low(a.v[k], factor)); });
    high = each([&](int k) { return product.v[k] >> 32; });
    return product;
  }
};

// What the blocks of a sequence have in common, broadcast to vectors once. `high`: the upper half
// of their numbers.
template <class Isa>
struct WideSequence {
  using Batch = typename WideWords<Isa>::Batch;
  Sequence sequence;
  std::uint32_t high;
  struct Keys {
    Batch k0[10], k1[10];
  } keys;
  struct Family {
    Batch z1, x2, z2, z3;
  } family;

  TWINOPS_INLINE WideSequence(const Sequence& s, std::uint64_t block)
      : sequence(s), high(static_cast<std::uint32_t>(block >> 32)) {
    const PhiloxKeys words = philox_keys(s.seed);
    for (int round = 0; round < 10; ++round) {
      keys.k0[round] = Batch(std::uint64_t{words.k0[round]});
      keys.k1[round] = Batch(std::uint64_t{words.k1[round]});
    }
    const PhiloxFamily f = philox_family(high, static_cast<std::uint32_t>(s.subsequence),
                                         static_cast<std::uint32_t>(s.subsequence >> 32), words);
    family = {Batch(std::uint64_t{f.z1}), Batch(std::uint64_t{f.x2}), Batch(std::uint64_t{f.z2}),
              Batch(std::uint64_t{f.z3})};
  }
  TWINOPS_INLINE bool has(std::uint64_t block) const { return block >> 32 == high; }
};

// The words of consecutive blocks, as vectors in order.
template <class Isa, int kWords>
struct DrawnWords {
  using Words = Vec<std::uint32_t, Isa>;
  static constexpr int kVectors = kWords / Words::kLanes;
  Words v[kVectors];
};

// Draws block by block where the upper half of the block number changes, once in 2^32 blocks, and
// prepares the sequence for the blocks behind.
template <class Isa>
[[gnu::noinline]] void draw_carrying(WideSequence<Isa>& s, std::uint64_t block, int blocks,
                                     std::uint32_t* words) {
  for (int b = 0; b < blocks; ++b) {
    const auto drawn = philox_block(s.sequence.seed, s.sequence.subsequence, block + b);
    for (int k = 0; k < 4; ++k) words[4 * b + k] = drawn.w[k];
  }
  s = WideSequence<Isa>(Sequence(s.sequence), block + blocks);
}

// n vectors of blocks, word by word.
template <class Isa, int n>
struct WideBlocks {
  using Batch = typename WideWords<Isa>::Batch;
  Batch w[4][n];

  TWINOPS_INLINE WideWords<Isa> get(int j, int k) const {
    return WideWords<Isa>::each([&](int i) { return w[j][k + i]; });
  }
  TWINOPS_INLINE void set(int k, const PhiloxBlock<WideWords<Isa>>& b) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
#pragma GCC unroll 4
      for (int i = 0; i < kVectorsInStep; ++i) w[j][k + i] = b.w[j].v[i];
  }
};

// Draws n vectors of blocks. The counters of the first are `first`, and those of each next one are
// greater by `apart`.
template <class Isa, int n>
TWINOPS_INLINE WideBlocks<Isa, n> draw_blocks(const WideSequence<Isa>& s,
                                              typename WideWords<Isa>::Batch first,
                                              std::uint64_t apart) {
  using Wide = WideWords<Isa>;
  using Batch = typename Wide::Batch;
  WideBlocks<Isa, n> blocks;
#pragma GCC unroll 8
  for (int k = 0; k < n; k += kVectorsInStep) {
    const Wide low =
        Wide::each([&](int i) { return first + Batch(apart * static_cast<std::uint64_t>(k + i)); });
    blocks.set(k, philox_three_rounds(s.family, low, s.keys));
  }
#pragma GCC unroll 10
  for (int round = 3; round < 10; ++round) {
#pragma GCC unroll 8
    for (int k = 0; k < n; k += kVectorsInStep) {
      const PhiloxBlock<Wide> b{
          {blocks.get(0, k), blocks.get(1, k), blocks.get(2, k), blocks.get(3, k)}};
      blocks.set(k, philox_round(b, s.keys, round));
    }
  }
  return blocks;
}

// Draws kWords words from `block` on: 64, or 128, with which all vectors of the wider sets go in
// step.
template <class Isa, int kWords>
TWINOPS_INLINE DrawnWords<Isa, kWords> draw(WideSequence<Isa>& s, std::uint64_t block) {
  using Batch = typename WideWords<Isa>::Batch;
  using Words = Vec<std::uint32_t, Isa>;
  constexpr int kBlocks = Words::kLanes / 2;  // of a vector
  constexpr int kVectors = kWords / 4 / kBlocks, kMost = kVectorsInStep * kGroups;
  constexpr int kTogether = kVectors < kMost && kGroups > 1 ? kVectors : kMost;
  DrawnWords<Isa, kWords> words;
  if (!s.has(block) || !s.has(block + kWords / 4 - 1)) [[unlikely]] {
    alignas(64) std::uint32_t buffer[kWords];
    draw_carrying<Isa>(s, block, kWords / 4, buffer);
    for (int i = 0; i < words.kVectors; ++i)
      words.v[i] = {Words::Batch::load_aligned(buffer + i * Words::kLanes)};
    return words;
  }
  // Even places hold the first half of a vector's blocks and odd places the second half. Once
  // unpacked, a vector of words holds whole blocks that follow one another.
  alignas(64) std::uint64_t numbers[kBlocks];
  for (int place = 0; place < kBlocks; ++place)
    numbers[place] = static_cast<std::uint64_t>(place % 2 * (kBlocks / 2) + place / 2);
  const Batch first =
      Batch::load_aligned(numbers) + Batch(std::uint64_t{static_cast<std::uint32_t>(block)});
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; i += kTogether) {
    const auto drawn = draw_blocks<Isa, kTogether>(
        s, first + Batch(static_cast<std::uint64_t>(kBlocks * i)), kBlocks);
#pragma GCC unroll 8
    for (int k = 0; k < kTogether; ++k) {
      if (i + k >= kVectors) continue;
      typename Words::Batch::register_type a = isa::pair_low(drawn.w[0][k], drawn.w[1][k]);
      typename Words::Batch::register_type b = isa::pair_low(drawn.w[2][k], drawn.w[3][k]);
      isa::unpack_pairs(a, b);
      words.v[2 * (i + k)] = {typename Words::Batch(a)};
      words.v[2 * (i + k) + 1] = {typename Words::Batch(b)};
    }
  }
  return words;
}

}  // namespace twinops
