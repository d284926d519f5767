// The one order in which floating-point values are added, and its obvious form: docs/numerics.md,
// "Sums". Kernels add in this order with registers, lanes and threads; this is what they must
// equal.
#pragma once

#include "numerics/scalar.hpp"

namespace twinops {

inline constexpr int kFoldChunk = 1024;  // values that are folded in half until one is left

// Folds s[0..n) in half until one value is left; n is a power of two. s is overwritten.
template <class F>
TWINOPS_INLINE constexpr F fold(F* s, int n) {
  for (int half = n / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) s[j] = s[j] + s[j + half];
  return s[0];
}

// Adds the sums of consecutive chunks as a balanced tree of neighbours, as they come: chunk 0 with
// 1, 2 with 3, then the pairs, and so on. What a tree lacks on its right is +0. F: float, double,
// or what else has a + and is F{} where there is nothing.
template <class F>
class ChunkTree {
 public:
  TWINOPS_INLINE constexpr void add(F sum) {
    int level = 0;
    for (; (count_ >> level) & 1; ++level) sum = partial_[level] + sum;
    partial_[level] = sum;
    ++count_;
  }
  TWINOPS_INLINE constexpr F total() const {
    F sum{};
    for (int level = 0; (count_ >> level) != 0; ++level)
      if ((count_ >> level) & 1) sum = partial_[level] + sum;
    return sum + F{};  // no -0 leaves
  }

 private:
  std::uint64_t count_ = 0;
  F partial_[64] = {};
};

// The sum of v[0..n).
template <class F>
constexpr F folded_sum(const F* v, std::int64_t n) {
  ChunkTree<F> tree;
  for (std::int64_t first = 0; first < n; first += kFoldChunk) {
    F chunk[kFoldChunk] = {};
    for (int j = 0; j < kFoldChunk && first + j < n; ++j) chunk[j] = v[first + j];
    tree.add(fold(chunk, kFoldChunk));
  }
  return tree.total();
}

}  // namespace twinops
