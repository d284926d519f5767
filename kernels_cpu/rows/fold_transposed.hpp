// As many vectors as a vector has lanes, each folded to one value: lane r of the result is the fold
// of vector r. A step halves two vectors and leaves one, so that it costs half of folding each
// vector alone. Included only by files that are compiled once for each instruction set.
#pragma once

#include <utility>

#include "kernels_cpu/rows/chunks.hpp"

namespace twinops {

// Rows up to this length go in groups, as many at once as a vector has lanes. Longer rows fill the
// lanes by themselves, and a group of them does not fit a cache: 512 floats, 256 doubles. Figures:
// docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
template <class F>
inline constexpr int kGroupColumns = 2048 / static_cast<int>(sizeof(F));

// Of two vectors of runs of kRun lanes, the first or the second half of every run. Runs longer than
// 128 bits: those of a, then those of b. Shorter ones: within the 128 bits where they lie, as the
// instructions do it.
template <int kRun, bool kSecond, class T, class Isa>
TWINOPS_INLINE Vec<T, Isa> half_runs(Vec<T, Isa> a, Vec<T, Isa> b) {
  constexpr int kLanes = Vec<T, Isa>::kLanes, kPart = 16 / static_cast<int>(sizeof(T));
  constexpr int kBlock = kRun > kPart ? kLanes : kPart;
  constexpr auto from = [](int lane) {
    const int at = lane % kBlock, within = at % (kBlock / 2), half = kRun / 2;
    return lane / kBlock * kBlock + within / half * kRun + within % half + (kSecond ? half : 0) +
           (at < kBlock / 2 ? 0 : kLanes);
  };
  return [&]<int... kLane>(std::integer_sequence<int, kLane...>) TWINOPS_INLINE_BODY {
    using Register = typename Vec<T, Isa>::Batch::register_type;
    return Vec<T, Isa>(typename Vec<T, Isa>::Batch(__builtin_shufflevector(
        static_cast<Register>(a.v), static_cast<Register>(b.v), from(kLane)...)));
  }
  (std::make_integer_sequence<int, kLanes>());
}

// Overwrites v.
template <int kRun, class T, class Isa, class Op>
TWINOPS_INLINE Vec<T, Isa> reduce_runs(Vec<T, Isa>* v, Op&& op) {
  constexpr int kLanes = Vec<T, Isa>::kLanes, kPart = 16 / static_cast<int>(sizeof(T));
  if constexpr (kRun == 1) {
    return v[0];
  } else {
    // Which vectors are joined, so that lane r ends as vector r's.
    constexpr int kApart = kRun > kPart ? kPart * (kLanes / kRun) : kPart / kRun;
    constexpr int kGone = kRun > kPart ? kApart - kPart : (kLanes - kPart) | (kApart - 1);
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r)
      if ((r & (kGone | kApart)) == 0)
        v[r] = op(half_runs<kRun, false>(v[r], v[r + kApart]),
                  half_runs<kRun, true>(v[r], v[r + kApart]));
    return reduce_runs<kRun / 2>(v, op);
  }
}

template <class T, class Isa>
TWINOPS_INLINE Vec<T, Isa> fold_transposed(Vec<T, Isa>* v) {
  return reduce_runs<Vec<T, Isa>::kLanes>(
      v, [](auto first, auto second) TWINOPS_INLINE_BODY { return first + second; });
}
template <class T, class Isa>
TWINOPS_INLINE Vec<T, Isa> largest_transposed(Vec<T, Isa>* v) {
  return reduce_runs<Vec<T, Isa>::kLanes>(
      v, [](auto first, auto second) TWINOPS_INLINE_BODY { return larger(first, second); });
}

}  // namespace twinops
