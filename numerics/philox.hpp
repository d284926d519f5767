// Philox4x32-10, the counter-based generator of Random123 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011), with cuRAND's use of key and counter: a word of the sequence is a
// pure function of (seed, subsequence, position), so any thread of any machine can draw it.
#pragma once

#include "numerics/scalar.hpp"

namespace twinops {

// Four words: a counter going in, random bits coming out. Word: std::uint32_t, or a vector of them
// (as many independent blocks as it has lanes).
template <class Word>
struct PhiloxBlock {
  Word w[4];
};

// The keys of the ten rounds.
struct PhiloxKeys {
  std::uint32_t k0[10], k1[10];
};

TWINOPS_INLINE constexpr PhiloxKeys philox_keys(std::uint64_t key) {
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  PhiloxKeys keys{};
  for (std::uint32_t round = 0; round < 10; ++round) {
    keys.k0[round] = static_cast<std::uint32_t>(key) + round * kWeyl0;
    keys.k1[round] = static_cast<std::uint32_t>(key >> 32) + round * kWeyl1;
  }
  return keys;
}

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier1 = 0xCD9E8D57u;

// One round. Keys: PhiloxKeys, or the same with each key spread over a vector.
template <class Word, class Keys>
TWINOPS_INLINE constexpr PhiloxBlock<Word> philox_round(const PhiloxBlock<Word>& b,
                                                        const Keys& keys, int round) {
  Word high0{}, high1{};
  const Word low0 = multiply_wide(b.w[0], kPhiloxMultiplier0, high0);
  const Word low1 = multiply_wide(b.w[2], kPhiloxMultiplier1, high1);
  return {
      {high1 ^ b.w[1] ^ Word(keys.k0[round]), low1, high0 ^ b.w[3] ^ Word(keys.k1[round]), low0}};
}

// The rounds from `first` on.
template <class Word, class Keys>
TWINOPS_INLINE constexpr PhiloxBlock<Word> philox_rounds(PhiloxBlock<Word> b, const Keys& keys,
                                                         int first = 0) {
  for (int round = first; round < 10; ++round) b = philox_round<Word>(b, keys, round);
  return b;
}

template <class Word>
TWINOPS_INLINE constexpr PhiloxBlock<Word> philox4x32_10(PhiloxBlock<Word> counter,
                                                         std::uint64_t key) {
  return philox_rounds<Word>(counter, philox_keys(key));
}

// Counters that differ in word 0 alone go through the first rounds with three of their four words,
// then two, then one still equal. What those leave, by the word that takes it and its round:
struct PhiloxFamily {
  std::uint32_t z1, x2, z2, z3;
};

TWINOPS_INLINE constexpr PhiloxFamily philox_family(std::uint32_t w1, std::uint32_t w2,
                                                    std::uint32_t w3, const PhiloxKeys& keys) {
  std::uint32_t high0 = 0, high1 = 0;
  const std::uint32_t low1 = multiply_wide(w2, kPhiloxMultiplier1, high1);
  const std::uint32_t low0 = multiply_wide(high1 ^ w1 ^ keys.k0[0], kPhiloxMultiplier0, high0);
  return {w3 ^ keys.k1[0], low1 ^ keys.k0[1], high0 ^ keys.k1[1], low0 ^ keys.k1[2]};
}

// The block whose counter has word 0, of a family, after its first three rounds. Family:
// PhiloxFamily, or the same over vectors.
template <class Word, class Family, class Keys>
TWINOPS_INLINE constexpr PhiloxBlock<Word> philox_three_rounds(const Family& family, Word w0,
                                                               const Keys& keys) {
  Word high0{}, high1{};
  const Word w1 = multiply_wide(w0, kPhiloxMultiplier0, high0);
  const Word y2 = multiply_wide(Word(high0 ^ Word(family.z1)), kPhiloxMultiplier1, high1);
  const Word w3 = multiply_wide(Word(high1 ^ Word(family.x2)), kPhiloxMultiplier0, high0);
  const Word y3 = multiply_wide(Word(w1 ^ Word(family.z2)), kPhiloxMultiplier1, high1);
  return {{high1 ^ y2 ^ Word(keys.k0[2]), y3, high0 ^ Word(family.z3), w3}};
}

// The same after all ten.
template <class Word, class Family, class Keys>
TWINOPS_INLINE constexpr PhiloxBlock<Word> philox_rounds_of(const Family& family, Word w0,
                                                            const Keys& keys) {
  return philox_rounds<Word>(philox_three_rounds<Word>(family, w0, keys), keys, 3);
}

// Block number `block` of a subsequence: the words that curand4() gives after
// curand_init(seed, subsequence, 4 * block).
TWINOPS_INLINE constexpr PhiloxBlock<std::uint32_t> philox_block(std::uint64_t seed,
                                                                 std::uint64_t subsequence,
                                                                 std::uint64_t block) {
  return philox4x32_10<std::uint32_t>(
      {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
        static_cast<std::uint32_t>(subsequence), static_cast<std::uint32_t>(subsequence >> 32)}},
      seed);
}

// Known answers of Random123 (its file kat_vectors).
namespace philox_known_answers {
constexpr bool equal(PhiloxBlock<std::uint32_t> a, PhiloxBlock<std::uint32_t> b) {
  return a.w[0] == b.w[0] && a.w[1] == b.w[1] && a.w[2] == b.w[2] && a.w[3] == b.w[3];
}
static_assert(equal(philox4x32_10<std::uint32_t>({{0, 0, 0, 0}}, 0),
                    {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
static_assert(equal(philox4x32_10<std::uint32_t>({{~0u, ~0u, ~0u, ~0u}}, ~0ull),
                    {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
static_assert(equal(philox4x32_10<std::uint32_t>({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                                                 0x299f31d0a4093822ull),
                    {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
constexpr PhiloxKeys kKeys = philox_keys(0x299f31d0a4093822ull);
static_assert(equal(philox_rounds_of(philox_family(0x85a308d3, 0x13198a2e, 0x03707344, kKeys),
                                     0x243f6a88u, kKeys),
                    {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}  // namespace philox_known_answers

}  // namespace twinops
