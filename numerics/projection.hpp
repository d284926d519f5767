// The arithmetic of the sparse random projection: docs/operators/random_projection.md.
#pragma once

#include "numerics/float16.hpp"
#include "numerics/random.hpp"

namespace twinops {

inline constexpr double kMostSparsity = 0x1p31;  // the largest s: one word of 2^31 for each sign

// How many words give +1; as many give -1, and the rest 0. 1 <= s <= kMostSparsity.
constexpr std::uint32_t projection_words(float s) {
  return static_cast<std::uint32_t>(0x1p31 / static_cast<double>(s));
}
static_assert(projection_words(1) == 0x80000000u && projection_words(3) == 715827882u &&
              projection_words(0x1p31f) == 1);

// The entries that a word gives.
TWINOPS_INLINE constexpr bool is_plus_one(std::uint32_t word, std::uint32_t words) {
  return word < words;
}
TWINOPS_INLINE constexpr bool is_minus_one(std::uint32_t word, std::uint32_t words) {
  return word - words < words;
}

// sqrt(s / k), rounded to F.
template <class F>
F projection_scale(float s, std::int64_t k) {
  return static_cast<F>(__builtin_sqrt(static_cast<double>(s) / static_cast<double>(k)));
}

// A term of the sum: x, -x or +0, whatever x is. Zeros of either sign are one: a sum that is 0
// leaves as +0.
template <class V, class Mask>
TWINOPS_INLINE constexpr V projection_term(Mask plus, Mask minus, V x) {
  const V zero(lane_t<V>(0));
  return select(plus, x, select(minus, zero - x, zero));
}

// The same by multiplication, for a finite x. The entry as a number, and two terms' sum: products
// with 1 and 0 are exact, so it is rounded as the sum of the terms is, and differs from it at most
// in the sign of a zero.
template <class F>
TWINOPS_INLINE constexpr F projection_entry(std::uint32_t word, std::uint32_t words) {
  return is_plus_one(word, words) ? F(1) : is_minus_one(word, words) ? F(-1) : F(0);
}
template <class F>
TWINOPS_INLINE F projection_pair(F entry0, F x0, F entry1, F x1) {
  return fma(entry1, x1, entry0 * x0);
}
template <class F>
TWINOPS_INLINE bool goes_by_products(F x) {
  return abs(x) < static_cast<F>(__builtin_huge_val());
}

// An element of the product, from its sum in the order of numerics/fold.hpp.
template <class V>
TWINOPS_INLINE constexpr V projected(V sum, V scale) {
  return sum * scale;
}

}  // namespace twinops
