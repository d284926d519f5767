// The random words of vectors of a row, for softmax's kernels with dropout in them.
#pragma once

#include "numerics/dropout.hpp"
#include "operators/dropout_work.hpp"

namespace twinops {

// Whether a vector whose index is a multiple of four draws whole Philox blocks, by keys that the
// host computes.
inline bool draws_whole_blocks(const DropoutWork& work) {
  const RandomArguments& random = work.random;
  return work.source != DropoutWork::Source::draw ||
         (random.layout == RandomLayout::contiguous && random.first % 4 == 0 &&
          random.seed_tensor == nullptr);
}

// The words of V elements from index i of the sequence on, a multiple of four; zeros where nothing
// is drawn.
template <int V>
__device__ __forceinline__ void draw_words(bool draws, const PhiloxKeys& keys,
                                           const Sequence& sequence, std::uint64_t i,
                                           PhiloxBlock<std::uint32_t> (&words)[V / 4]) {
#pragma unroll
  for (int b = 0; b < V / 4; ++b) {
    words[b] = {{0, 0, 0, 0}};
    const std::uint64_t block = sequence.block + i / 4 + static_cast<unsigned>(b);
    if (draws)
      words[b] = philox_rounds<std::uint32_t>(
          {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
            static_cast<std::uint32_t>(sequence.subsequence),
            static_cast<std::uint32_t>(sequence.subsequence >> 32)}},
          keys);
  }
}

}  // namespace twinops
