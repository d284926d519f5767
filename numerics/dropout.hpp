// The arithmetic of dropout: docs/numerics.md, "Dropout".
#pragma once

#include "numerics/float16.hpp"
#include "numerics/random.hpp"

namespace twinops {

// The words that keep an element: word - first < count, modulo 2^32.
struct KeepRange {
  std::uint32_t first, count;
  TWINOPS_INLINE constexpr bool has(std::uint32_t word) const { return word - first < count; }
};

// The least word in [0, 2^bits) for which `test` no longer holds; it holds below some word and not
// above.
template <class Test>
constexpr std::uint64_t first_failure(int bits, Test test) {
  std::uint64_t low = 0, high = std::uint64_t{1} << bits;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (test(static_cast<std::uint32_t>(middle)))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The words with uniform(word) < keep, where uniform is cuRAND's; the uniform number is a float,
// the comparison one of F, which is float or double. 0 < keep.
template <class F>
constexpr KeepRange words_below(F keep) {
  return {0, static_cast<std::uint32_t>(first_failure(
                 32, [keep](std::uint32_t word) { return F(curand_uniform(word)) < keep; }))};
}

// The words with uniform(word) < 1 - p, where uniform is cuRAND's; with Triton's layout, those with
// uniform(word) > p, where uniform is Triton's. 0 < p < 1. Both uniforms are monotone (Triton's in
// the folded word), so the ranges are exact: no kernel converts a word to float.
constexpr KeepRange keep_range(RandomLayout layout, float p) {
  if (layout == RandomLayout::triton) {
    const auto least = static_cast<std::uint32_t>(
        first_failure(31, [p](std::uint32_t folded) { return !(triton_uniform(folded) > p); }));
    return {least, 0u - 2 * least};  // least >= 1: the folded word 0 gives 0, which is not above p
  }
  return words_below(1.0f - p);
}

static_assert(keep_range(RandomLayout::contiguous, 0.5f).count == 0x7fffffc0u);
static_assert(keep_range(RandomLayout::contiguous, 0.1f).count == 0xe6666580u);

// The probability of keeping an element and what a kept one is multiplied with, of the compute
// type, to which p is rounded first; in layout torch, as in PyTorch, 1 - p is. (In the other
// layouts which words keep is decided in float for every type.)
template <class F>
constexpr F keep_probability(RandomLayout layout, double p) {
  return layout == RandomLayout::torch ? static_cast<F>(1.0 - p) : F(1) - static_cast<F>(p);
}
template <class F>
constexpr F keep_scale(RandomLayout layout, double p) {
  return F(1) / keep_probability<F>(layout, p);
}

// The value of an element: scaled if it is kept, else +0 whatever x is. V: float, double or a
// vector of them.
template <class V, class Mask>
TWINOPS_INLINE constexpr V dropped_out(Mask kept, V x, V scale) {
  return select(kept, x * scale, V(lane_t<V>(0)));
}

// What there is beside x.
template <class V>
struct Terms {
  bool has_bias, has_residual;
  V bias, residual;
};

// dropout(x + bias) + residual. Each sum is rounded once.
template <class V, class Mask>
TWINOPS_INLINE constexpr V dropped_out(Mask kept, V x, V scale, const Terms<V>& terms) {
  if (terms.has_bias) x = x + terms.bias;
  const V y = dropped_out(kept, x, scale);
  return terms.has_residual ? y + terms.residual : y;
}

// A mask of eight elements: bits to bytes of 0 and 1, least significant first; and back, where any
// byte but 0 is 1.
TWINOPS_INLINE constexpr std::uint64_t mask_bytes(std::uint32_t bits) {
  const std::uint64_t spread = bits * 0x0101010101010101ull & 0x8040201008040201ull;
  return (spread + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull;
}
TWINOPS_INLINE constexpr std::uint32_t mask_bits(std::uint64_t bytes) {
  const std::uint64_t low = (bytes & 0x7f7f7f7f7f7f7f7full) + 0x7f7f7f7f7f7f7f7full;
  const std::uint64_t ones = (low | bytes) >> 7 & 0x0101010101010101ull;
  return static_cast<std::uint32_t>(ones * 0x0102040810204080ull >> 56);
}
static_assert(mask_bytes(0xb1) == 0x0100010100000001ull && mask_bits(mask_bytes(0xb1)) == 0xb1);
static_assert(mask_bits(0x8000ff0001000002ull) == 0xa9u);

}  // namespace twinops
