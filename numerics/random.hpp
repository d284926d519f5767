// Where an element's random word lies in a Philox sequence, for each layout, and what becomes of
// the word. docs/numerics.md, "Random numbers".
#pragma once

#include "numerics/philox.hpp"

namespace twinops {

// How elements take words of the sequence.
//   contiguous  element e takes word e mod 4 of block e / 4: what one thread draws with cuRAND
//   strided     group e / 4 takes subsequence (e / 4) mod T, block (e / 4) / T: many threads of
//               cuRAND that take turns; T = 65536 is the order of cuRAND's host API
//   triton      element e takes word 0 of block e: tl.rand(seed, e)
//   torch       element e is one of `vector` that thread (e / vector) mod T takes at once, in its
//               turn (e / vector) / T; each thread has a subsequence, and a turn takes whole
//               blocks. With vectors of one, four turns share a block: PyTorch's fused dropout
enum class RandomLayout : std::uint8_t { contiguous, strided, triton, torch };

// A layout and its numbers.
struct WordOrder {
  RandomLayout layout;
  std::uint8_t vector;   // of layout torch: 1, 2, 4 or 8 elements
  std::uint64_t period;  // of the layouts strided and torch: the subsequences that take turns
};

// The state that a call draws from.
struct Sequence {
  std::uint64_t seed, subsequence;
  std::uint64_t block;  // offset / 4
};

struct WordPlace {
  std::uint64_t subsequence, block;
  std::uint32_t word;
};

TWINOPS_INLINE constexpr WordPlace place_in_torch(const WordOrder& order, const Sequence& s,
                                                  std::uint64_t e) {
  const std::uint64_t vector = e / order.vector, thread = s.subsequence + vector % order.period;
  const std::uint64_t turn = vector / order.period;
  if (order.vector == 1) return {thread, s.block + turn / 4, static_cast<std::uint32_t>(turn % 4)};
  const auto element = static_cast<std::uint32_t>(e % order.vector);
  const std::uint64_t blocks = order.vector == 8 ? 2 : 1;  // of a turn
  return {thread, s.block + turn * blocks + element / 4, element % 4};
}

TWINOPS_INLINE constexpr WordPlace place_of(const WordOrder& order, const Sequence& s,
                                            std::uint64_t e) {
  const std::uint64_t group = e / 4;
  const auto word = static_cast<std::uint32_t>(e % 4);
  switch (order.layout) {
    case RandomLayout::contiguous:
      return {s.subsequence, s.block + group, word};
    case RandomLayout::strided:
      return {s.subsequence + group % order.period, s.block + group / order.period, word};
    case RandomLayout::torch:
      return place_in_torch(order, s, e);
    default:
      return {s.subsequence, s.block + e, 0};
  }
}

// Word `index` of a block, without an array in memory.
TWINOPS_INLINE constexpr std::uint32_t pick(const PhiloxBlock<std::uint32_t>& b,
                                            std::uint32_t index) {
  const std::uint32_t low = index & 1 ? b.w[1] : b.w[0], high = index & 1 ? b.w[3] : b.w[2];
  return index & 2 ? high : low;
}

// The word of element e.
TWINOPS_INLINE constexpr std::uint32_t word_of(const WordOrder& order, const Sequence& s,
                                               std::uint64_t e) {
  const WordPlace at = place_of(order, s, e);
  return pick(philox_block(s.seed, at.subsequence, at.block), at.word);
}

// Draws word after word, and computes a block only when the one before was another.
class WordReader {
 public:
  TWINOPS_INLINE constexpr explicit WordReader(const WordOrder& order) : order_(order) {}
  TWINOPS_INLINE constexpr std::uint32_t word(const Sequence& s, std::uint64_t e) {
    const WordPlace at = place_of(order_, s, e);
    if (!drawn_ || at.block != at_.block || at.subsequence != at_.subsequence || s.seed != seed_) {
      block_ = philox_block(s.seed, at.subsequence, at.block);
      at_ = at;
      seed_ = s.seed;
      drawn_ = true;
    }
    return pick(block_, at.word);
  }

 private:
  WordOrder order_;
  bool drawn_ = false;
  std::uint64_t seed_ = 0;
  WordPlace at_{};
  PhiloxBlock<std::uint32_t> block_{};
};

// cuRAND's curand_uniform: (0, 1]. The product is exact, the sum is rounded once.
TWINOPS_INLINE constexpr float curand_uniform(std::uint32_t word) {
  return static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
}

// Triton's uint_to_uniform_float: [0, 1). The word's sign folds it in half.
TWINOPS_INLINE constexpr float triton_uniform(std::uint32_t word) {
  const std::uint32_t folded = word >> 31 ? ~word : word;
  return static_cast<float>(static_cast<std::int32_t>(folded)) * 4.6566127342e-10f;
}

TWINOPS_INLINE constexpr float uniform_of(RandomLayout layout, std::uint32_t word) {
  return layout == RandomLayout::triton ? triton_uniform(word) : curand_uniform(word);
}

}  // namespace twinops
