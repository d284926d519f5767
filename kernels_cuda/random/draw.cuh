// The random words of a vector of elements in each layout (numerics/random.hpp), and what a launch
// is compiled for.
//
// In the layouts contiguous and triton the counter's upper words are equal for a whole launch, so a
// thread's vectors share two of the twenty wide multiplications, in uniform registers:
// docs/lab/dropout-cuda.md.
#pragma once

#include "kernels_cuda/common/launch.cuh"
#include "numerics/dropout.hpp"

namespace twinops {

// Where the mask of a launch comes from. same: all elements are kept, or none. mask: it is read.
// The others are drawn, in that layout.
enum class MaskSource { same, mask, contiguous, strided, triton };

// The layout of a launch's draws. Where nothing is drawn it does not matter. Layout torch goes
// element by element, to dropout_strided_octet.
constexpr RandomLayout layout_of(MaskSource source) {
  return source == MaskSource::strided  ? RandomLayout::strided
         : source == MaskSource::triton ? RandomLayout::triton
                                        : RandomLayout::contiguous;
}

constexpr bool is_drawn(MaskSource source) {
  return source != MaskSource::same && source != MaskSource::mask;
}

template <MaskSource kSource>
__device__ constexpr bool keeps(const KeepRange& keep, std::uint32_t word) {
  return kSource == MaskSource::triton ? keep.has(word) : word < keep.count;  // first is 0
}

// A word that all threads of a warp have, in a uniform register. All of them call it.
__device__ inline std::uint32_t uniform_word(std::uint32_t word) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  return __reduce_or_sync(~0u, word);  // its result lies in a uniform register
#else
  return __shfl_sync(~0u, word, 0);
#endif
}
__device__ inline std::uint64_t uniform_word(std::uint64_t word) {
  return std::uint64_t{uniform_word(static_cast<std::uint32_t>(word >> 32))} << 32 |
         uniform_word(static_cast<std::uint32_t>(word));
}

struct Quotient {
  std::uint64_t quotient, rest;
};

// a / b and a mod b, by a 32-bit division where both fit.
__device__ inline Quotient divided(std::uint64_t a, std::uint64_t b) {
  if ((a | b) >> 32 != 0) return {a / b, a % b};
  const auto low = static_cast<std::uint32_t>(a), by = static_cast<std::uint32_t>(b);
  return {low / by, low % by};
}

// Where the draws of a launch begin.
struct DrawOrigin {
  PhiloxKeys keys;
  std::uint64_t subsequence, block;  // of the sequence
  std::uint64_t first;               // block, or group of four, of the first element
  std::uint64_t period;

  // Whether draw_vector may count the blocks of `elements` elements in 32 bits.
  template <MaskSource kSource>
  __device__ bool reaches(std::int64_t elements) const {
    if (!is_drawn(kSource) || kSource == MaskSource::strided) return true;
    const std::uint64_t begin = block + first;
    const std::uint64_t blocks =
        static_cast<std::uint64_t>(elements) / (kSource == MaskSource::triton ? 1 : 4);
    return (begin ^ (begin + blocks)) >> 32 == 0;
  }
};

// The words of vector number `vector`, whose elements follow one another.
template <MaskSource kSource, int kElements>
__device__ __forceinline__ void draw_vector(const DrawOrigin& d, std::int64_t vector,
                                            std::uint32_t (&words)[kElements]) {
  const auto philox = [&](std::uint32_t low, std::uint32_t high, std::uint64_t subsequence) {
    return philox_rounds<std::uint32_t>({{low, high, static_cast<std::uint32_t>(subsequence),
                                          static_cast<std::uint32_t>(subsequence >> 32)}},
                                        d.keys);
  };
  const auto number = static_cast<std::uint64_t>(vector);
  if constexpr (kSource == MaskSource::triton) {
    const std::uint64_t begin = d.block + d.first;
    const auto high = static_cast<std::uint32_t>(begin >> 32);
    const auto low = static_cast<std::uint32_t>(begin + number * kElements);
#pragma unroll
    for (int j = 0; j < kElements; ++j)
      words[j] = philox(low + static_cast<unsigned>(j), high, d.subsequence).w[0];
    return;
  }
  const std::uint64_t four = d.first + number * (kElements / 4);
  Quotient turn{};
  if constexpr (kSource == MaskSource::strided) turn = divided(four, d.period);
#pragma unroll
  for (int b = 0; b < kElements / 4; ++b) {
    PhiloxBlock<std::uint32_t> drawn;
    if constexpr (kSource == MaskSource::strided) {
      const std::uint64_t block = d.block + turn.quotient;
      drawn = philox(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                     d.subsequence + turn.rest);
      turn.rest = turn.rest + 1 == d.period ? 0 : turn.rest + 1;
      turn.quotient += turn.rest == 0;
    } else {
      drawn = philox(static_cast<std::uint32_t>(d.block + four) + static_cast<unsigned>(b),
                     static_cast<std::uint32_t>((d.block + d.first) >> 32), d.subsequence);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) words[4 * b + k] = drawn.w[k];
  }
}

// The same in layout contiguous, for vectors over whose blocks the upper half of the counter
// changes.
template <int kElements>
__device__ __forceinline__ void draw_carrying_vector(const DrawOrigin& d, std::int64_t vector,
                                                     std::uint32_t (&words)[kElements]) {
  const std::uint64_t first =
      d.block + d.first + static_cast<std::uint64_t>(vector) * (kElements / 4);
#pragma unroll
  for (int b = 0; b < kElements / 4; ++b) {
    const std::uint64_t block = first + static_cast<unsigned>(b);
    const auto drawn = philox_rounds<std::uint32_t>(
        {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
          static_cast<std::uint32_t>(d.subsequence),
          static_cast<std::uint32_t>(d.subsequence >> 32)}},
        d.keys);
#pragma unroll
    for (int k = 0; k < 4; ++k) words[4 * b + k] = drawn.w[k];
  }
}

}  // namespace twinops
