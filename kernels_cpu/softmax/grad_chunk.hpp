// A contiguous run of up to a chunk of elements of the backward passes, of one row or across
// neighbouring strided rows: the sum of its terms, and its gradients. Included only by files that
// are compiled once for each instruction set.
//
// Memory: y and dy are read where they are, and nothing beyond the run is. Order: docs/softmax.md.
// Two vectors of bfloat16 lie in one vector of words, and no lane is moved.
#pragma once

#include <limits>

#include "kernels_cpu/rows/chunks.hpp"
#include "numerics/softmax.hpp"

namespace twinops {

template <class Isa, bool kLog, class In>
struct GradRun {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kLanes = V::kLanes;

  const In *y, *dy;
  int n;  // 1 to kFoldChunk

  // A vector of the terms of elements j, j + 1, ...
  TWINOPS_INLINE V term(int j) const { return term(y + j, dy + j); }

  // The fold of the terms until one vector is left.
  TWINOPS_INLINE V sum() const {
    const int count = n, whole = count - count % kLanes, end = padded<Compute, Isa>(count);
    const auto at = [&](int j) TWINOPS_INLINE_BODY { return term(j); };
    if (whole == end) return fold_to_vector<Compute, Isa>(end, at);
    V last(Compute(0));
    if (whole != count) {
      V from_y(Compute(0));
      if constexpr (!kLog) from_y = load_partial<Isa>(y + whole, count - whole);
      last = grad_term<kLog>(from_y, load_partial<Isa>(dy + whole, count - whole));
    }
    if (end <= 4 * kLanes) {
      return fold_up_to_four<Compute, Isa>(end, [&](int j) TWINOPS_INLINE_BODY {
        if (j < whole) return term(j);
        return j < count ? last : V(Compute(0));
      });
    }
    alignas(64) Compute terms[kFoldChunk];
    int j = 0;
    for (; j < whole; j += kLanes) save(terms + j, term(j));
    for (; j < end; j += kLanes) save(terms + j, j < count ? last : V(Compute(0)));
    return fold_eighths<Compute, Isa>(
        end, [&](int i) TWINOPS_INLINE_BODY { return load<Isa>(terms + i); });
  }

  // The fold of all terms.
  TWINOPS_INLINE Compute total() const {
    if constexpr (std::is_same_v<In, bfloat16>)
      if (n == kFoldChunk) return total_of_words();
    return isa::fold_lanes(sum().v);
  }

  // Writes dx, which may be y or dy. sum(j): the sums of the rows that elements j, j + 1, ...
  // belong to. kOneRow: all belong to one.
  template <bool kOneRow, class Out, class Sum>
  TWINOPS_INLINE void write(RowView<Out, Isa> dx, Compute scale, Sum&& sum) const {
    if (dx.step == 1 && !dx.streamed)
      write_dense<kOneRow>(dx.data, scale, sum);
    else
      write_apart<kOneRow>(*this, dx, scale, sum);
  }

 private:
  TWINOPS_INLINE static V term(const In* from_y, const In* from_dy) {
    return grad_term<kLog>(kLog ? V(Compute(0)) : load<Isa>(from_y), load<Isa>(from_dy));
  }

  // total() of a whole chunk of bfloat16.
  TWINOPS_INLINE Compute total_of_words() const {
    using Two = EvenAndOdd<Compute, Isa>;
    const Two sums = fold_eighths<Compute, Isa>(kFoldChunk, [&](int j) TWINOPS_INLINE_BODY {
      Two from_y{V(Compute(0)), V(Compute(0))}, from_dy;
      if constexpr (!kLog) load_two<Isa>(y + j, from_y.even, from_y.odd);
      load_two<Isa>(dy + j, from_dy.even, from_dy.odd);
      return Two{grad_term<kLog>(from_y.even, from_dy.even),
                 grad_term<kLog>(from_y.odd, from_dy.odd)};
    });
    return isa::fold_lanes(sums.even.v) + isa::fold_lanes(sums.odd.v);
  }

  // Whether the powers of a run, a vector at least, are normal: half the instructions then give the
  // same bits.
  TWINOPS_INLINE bool powers_are_normal() const {
    if (n < kLanes) return false;
    const V limit(ExpTable<Compute>::kNormal);
    auto normal = abs(load<Isa>(y + n - kLanes)) < limit;
    for (int j = 0; j + kLanes <= n; j += kLanes) normal = normal & (abs(load<Isa>(y + j)) < limit);
    const V nan = select(normal, V(Compute(0)), V(std::numeric_limits<Compute>::quiet_NaN()));
    return !isa::holds_nan(nan.v, nan.v, nan.v, nan.v);
  }

  // Not inlined, because it is large and called from many places. Its arguments come by value: a
  // run or a sum whose address is known is read again after every store.
  template <bool kOneRow, class Out, class Sum>
  [[gnu::noinline]] static void write_apart(GradRun run, RowView<Out, Isa> dx, Compute scale,
                                            Sum sum) {
    alignas(64) Out dxs[kFoldChunk];
    run.template write_dense<kOneRow>(dxs, scale, sum);
    if (dx.streamed) return stream_elements<Isa>(dx.data, dxs, run.n);
    for (int j = 0; j < run.n; ++j) dx.data[j * dx.step] = dxs[j];
  }

  template <bool kOneRow, class Out, class Sum>
  TWINOPS_INLINE void write_dense(Out* dx, Compute factor, Sum&& sum) const {
    const V scale(factor);
    const auto scaled = [&](int j, V a, V b) TWINOPS_INLINE_BODY {
      return softmax_grad<kLog, In>(a, b, sum(j), scale);
    };
    if constexpr (kLog) {
      // Rare, or shorter than a vector.
      if (!powers_are_normal()) return write_each<kOneRow, false>(dx, scaled);
      write_each<kOneRow, true>(dx, [&](int j, V a, V b) TWINOPS_INLINE_BODY {
        return normal_log_softmax_grad<In>(a, b, sum(j), scale);
      });
    } else {
      // Four vectors at once are faster where much is computed or a lane would be moved.
      constexpr bool kAtOnce = in_words<kOneRow, Out>();
      if (factor != Compute(1)) return write_each<kOneRow, kAtOnce>(dx, scaled);
      write_each<kOneRow, kAtOnce>(dx, [&](int j, V a, V b) TWINOPS_INLINE_BODY {
        return softmax_grad<kLog, In>(a, b, sum(j));  // the same bits
      });
    }
  }

  // Whether gradients are computed as two vectors in one vector of words.
  template <bool kOneRow, class Out>
  static constexpr bool in_words() {
    return kOneRow && std::is_same_v<In, bfloat16> && std::is_same_v<Out, bfloat16>;
  }

  // kAtOnce: four vectors at once.
  template <bool kOneRow, bool kAtOnce, class Out, class Gradient>
  TWINOPS_INLINE void write_each(Out* dx, Gradient&& of) const {
    const auto gradient = [&](int j, const In* from_y, const In* from_dy) TWINOPS_INLINE_BODY {
      return of(j, load<Isa>(from_y), load<Isa>(from_dy));
    };
    const int count = n;
    if (count < kLanes) {
      alignas(64) Out out[kLanes];
      store<Isa>(out, of(0, load_partial<Isa>(y, count), load_partial<Isa>(dy, count)));
      return copy_partial<kLanes>(dx, out, count);
    }
    const int fours = kAtOnce ? count - count % (4 * kLanes) : 0;
    if (kAtOnce && count == fours) return write_fours<kOneRow>(dx, fours, of);
    // The last vector overlaps the one before it, whose store may overwrite what it is computed
    // from.
    const int at_last = count - kLanes;
    const V last = gradient(at_last, y + at_last, dy + at_last);
    if constexpr (kAtOnce)
      if (fours != 0) write_fours<kOneRow>(dx, fours, of);
#pragma GCC unroll 4
    for (int j = fours; j < at_last; j += kLanes) store<Isa>(dx + j, gradient(j, y + j, dy + j));
    store<Isa>(dx + at_last, last);
  }
  // Writes the first `count` elements, four vectors at once, which nearly always hold no NaN.
  template <bool kOneRow, class Out, class Gradient>
  TWINOPS_INLINE void write_fours(Out* dx, int count, Gradient&& of) const {
    for (int j = 0; j < count; j += 4 * kLanes) {
      const auto read = [&](int i, const In* from, V* to) TWINOPS_INLINE_BODY {
        if constexpr (in_words<kOneRow, Out>()) {
          load_two<Isa>(from + i, to[0], to[1]);
        } else {
          to[0] = load<Isa>(from + i);
          to[1] = load<Isa>(from + i + kLanes);
        }
      };
      V gradients[4];
      for (int k = 0; k < 4; k += 2) {
        const int i = j + k * kLanes;
        V ys[2], dys[2];
        read(i, y, ys);
        read(i, dy, dys);
        gradients[k] = of(i, ys[0], dys[0]);
        gradients[k + 1] = of(i + kLanes, ys[1], dys[1]);
      }
      const bool nan =
          isa::holds_nan(gradients[0].v, gradients[1].v, gradients[2].v, gradients[3].v);
      if (nan) [[unlikely]] {
        for (int i = j; i < j + 4 * kLanes; i += kLanes)
          store<Isa>(dx + i, of(i, load<Isa>(y + i), load<Isa>(dy + i)));
      } else if constexpr (in_words<kOneRow, Out>()) {
        for (int k = 0; k < 4; k += 2)
          store_two<Isa>(dx + j + k * kLanes, gradients[k], gradients[k + 1]);
      } else {
        for (int k = 0; k < 4; ++k) store_canonical<Isa>(dx + j + k * kLanes, gradients[k]);
      }
    }
  }
};

}  // namespace twinops
