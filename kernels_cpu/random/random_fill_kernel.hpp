// philox_words and uniform by vectors. Included only by files that are compiled once for each
// instruction set. Memory: each element is written once.
#pragma once

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/random/philox.hpp"
#include "kernels_cpu/random/strided_elements.hpp"
#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {

// convert(word): the 32 bits to store for a random word.
template <class Isa, class Convert>
TWINOPS_INLINE void fill_range(const RandomFill& fill, const Sequence& sequence, Convert convert,
                               std::int64_t begin, std::int64_t end) {
  const bool by_vectors =
      fill.flat && fill.random.layout == RandomLayout::contiguous && fill.random.first % 4 == 0;
  const std::uint64_t first_block = sequence.block + fill.random.first / 4;
  WideSequence<Isa> wide(sequence, first_block + static_cast<std::uint64_t>(begin) / 4);
  for (std::int64_t i = begin; i < end; i += kStep) {
    const int n = static_cast<int>(end - i < kStep ? end - i : kStep);
    alignas(64) std::uint32_t words[kStep];
    if (by_vectors) {
      const auto drawn = draw<Isa, kStep>(wide, first_block + static_cast<std::uint64_t>(i) / 4);
      for (int k = 0; k < drawn.kVectors; ++k)
        drawn.v[k].v.store_aligned(words + k * Vec<std::uint32_t, Isa>::kLanes);
    } else {
      fill_words(fill, sequence, i, n, words);
    }
    for (int j = 0; j < n; ++j) words[j] = convert(words[j]);
    if (fill.flat)
      __builtin_memcpy(static_cast<std::uint32_t*>(fill.out) + i, words,
                       static_cast<std::size_t>(n) * 4);
    else
      scatter_fill(fill, i, n, words);
  }
}

template <class Isa, class Convert>
TWINOPS_INLINE void fill_on_cpu(const RandomFill& fill, Execution& execution, Convert convert) {
  constexpr std::int64_t kGrain = 1 << 12;  // elements that are worth a thread
  execution.random_words = fill.random.words;
  const Sequence sequence = fill.random.sequence();
  parallel_ranges(execution, fill.elements, kGrain, 1024,
                  [&](std::int64_t begin, std::int64_t end) {
                    fill_range<Isa>(fill, sequence, convert, begin, end);
                  });
}

}  // namespace twinops
