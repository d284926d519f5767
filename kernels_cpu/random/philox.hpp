// Philox by vectors: 64 or 128 words a step in the order of elements, whatever the width of the
// instruction set. Only files compiled once an instruction set include this.
//
// A round costs a vector of blocks two multiplications, two shifts and four exclusive ors, which
// compilers join in two where the set has one of three. What makes it no more than that:
//   - words lie in 64-bit places, where the multiplier finds and leaves them: no shuffle in a round
//   - blocks of one sequence differ in the low word of the counter alone: of the first three rounds
//     half is done once for all of them (PhiloxFamily)
//   - several vectors go in step and fill one another's latency: no processor looks far enough
//     ahead to find other work behind a chain of ten rounds. With 32 registers four of them do;
//     with 16, eight that take turns round by round, though most of their words then spill
//   - a lane's block is chosen so that words fall into the order of elements by two unpackings
// Draws and threshold alone, without any memory, on a Xeon of model 207, cycles an element: AVX-512
// 1.20, AVX2 2.5 (with two vectors in step 2.8), SSE2 5.4 (5.7). A loop that scales an array in
// memory takes 0.84 there, so that drawing bounds dropout on the CPU, not memory.
// Tried there:
//   - high halves through memory, where loads duplicate them without a shift: slower for all
//     vectors, by the latency of forwarding. For every second of eight AVX-512 vectors: 0.96 cycles
//     in an experiment, 1.19 in dropout's kernel instead of 1.26; but from memory slower by a tenth
//     to a fifth, because these stores wait in line behind those of y
//   - AVX2: shuffles, which have another port, in place of shifts; low words kept in memory by
//     hand; keys added to both halves of a product every second round: none worth its lines
#pragma once

#include "kernels_cpu/simd/vec.hpp"
#include "kernels_cpu/simd/words.hpp"
#include "numerics/random.hpp"

namespace twinops {

// Vectors of blocks that go in step, each operation for all of them, and groups of such vectors
// that take turns, round by round. A vector of blocks takes four registers.
#if defined(__AVX512BW__) || defined(__aarch64__)
inline constexpr int kVectorsInStep = 4, kGroups = 1;  // of 32 registers
#elif defined(__AVX2__)
inline constexpr int kVectorsInStep = 1, kGroups = 8;  // spills, which costs less than waiting
#else
inline constexpr int kVectorsInStep = 1, kGroups = 4;
#endif

// 32-bit words in 64-bit places; the upper halves hold what is left over.
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

// What the blocks of a sequence have in common, spread over vectors once. `high`: the upper half of
// their numbers.
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

// The words of blocks that follow one another, as vectors in order.
template <class Isa, int kWords>
struct DrawnWords {
  using Words = Vec<std::uint32_t, Isa>;
  static constexpr int kVectors = kWords / Words::kLanes;
  Words v[kVectors];
};

// Where the upper half of the block number changes, once in 2^32 blocks: one by one, and the
// sequence is made anew for what follows.
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

// n vectors of blocks, whose counters begin at those of `first` and are `apart`.
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

// kWords: 64, or 128, which lets all vectors of the wider sets go in step.
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
  // Even places hold the first half of a vector's blocks, odd places the second: unpacked, a vector
  // of words then holds whole blocks that follow one another.
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
