// As many vectors as one has lanes, each reduced to one value: lane r of the answer is what folding
// vector r by halves gives. A step halves two vectors at once and leaves one, so it costs half of
// what folding each alone does. Only files compiled once an instruction set include this.
#pragma once

#include <utility>

#include "kernels_cpu/rows/chunks.hpp"

namespace twinops {

// Rows that go as many at once as a vector has lanes. Longer ones keep the lanes busy by
// themselves, and a group of them no cache: 512 floats, 256 doubles. On a Zen 3, AVX2, 300 columns
// in the caches, a row alone and in a group: softmax of float32 40 and 34 us, log_softmax of it 47
// and 33; but 512 of float64 79 and 85.
template <class F>
inline constexpr int kGroupColumns = 2048 / static_cast<int>(sizeof(F));

// Two vectors of runs of kRun lanes each: the first or the second half of every run. Runs longer
// than 128 bits: a's first, then b's; shorter ones in the 128 bits where they lie, which is what
// instruction sets do at once.
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

// v is overwritten.
template <int kRun, class T, class Isa, class Op>
TWINOPS_INLINE Vec<T, Isa> reduce_runs(Vec<T, Isa>* v, Op&& op) {
  constexpr int kLanes = Vec<T, Isa>::kLanes, kPart = 16 / static_cast<int>(sizeof(T));
  if constexpr (kRun == 1) {
    return v[0];
  } else {
    // Which vectors meet: so that lane r ends as vector r's.
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
