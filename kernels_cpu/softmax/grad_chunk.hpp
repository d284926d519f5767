// A contiguous run of up to a chunk of elements of the backward passes, of one row or across
// neighbouring strided rows: the sum of its terms, and its gradients. Included only by files that
// are compiled once for each instruction set.
//
// Memory: y and dy are read where they are, and nothing beyond the run is. Order: docs/softmax.md.
// Two vectors of bfloat16 lie in one vector of words, and no lane is moved.
#pragma once

#include <limits>
#include <utility>

#include "kernels_cpu/rows/chunks.hpp"
#include "numerics/softmax.hpp"

namespace twinops {

template <class Isa, bool kLog, class In>
struct GradRun {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kLanes = V::kLanes;

  const In *y, *dy;
  int n;          // 1 to kFoldChunk
  int ahead = 0;  // elements from here to what is fetched while gradients are written; 0: nothing

  // A vector of the terms of elements j, j + 1, ...
  TWINOPS_INLINE V term(int j) const { return term(y + j, dy + j); }

  // The fold of up to four vectors of terms until one is left.
  TWINOPS_INLINE V sum_of_few() const {
    const int end = padded<Compute, Isa>(n);
    const auto at = [&](int j) TWINOPS_INLINE_BODY { return term(j); };
    if (n == end) return fold_up_to_four<Compute, Isa>(end, at);
    const V last = last_term();
    const auto in_run = [&](int j) TWINOPS_INLINE_BODY { return term_or(last, j); };
    return fold_up_to_four<Compute, Isa>(end, in_run);
  }

  // The same of more than half of kVectors vectors, a power of two.
  template <int kVectors>
  TWINOPS_INLINE V sum_in_registers() const {
    const int count = n;
    const auto half = std::make_integer_sequence<int, kVectors / 2>();
    if (count == kVectors * kLanes)
      return fold_halves(half, [&](V first, int j) TWINOPS_INLINE_BODY { return first + term(j); });
    const int whole = count - count % kLanes;
    const V last = last_term();
    return fold_halves(half, [&](V first, int j) TWINOPS_INLINE_BODY {
      return j < count ? first + (j < whole ? term(j) : last) : first;
    });
  }

  // The same of any number. kInOrder: y and dy are read in the order of memory.
  template <bool kInOrder>
  TWINOPS_INLINE V sum_by_loops() const {
    const int count = n, whole = count - count % kLanes, end = padded<Compute, Isa>(count);
    const auto at = [&](int j) TWINOPS_INLINE_BODY { return term(j); };
    if (whole == end && !kInOrder) {
      if (end == kFoldChunk) return fold_in_order<kFoldChunk, Compute, Isa>(at);
      if constexpr (sizeof(In) > 2 && !kLog)
        if (end == kFoldChunk / 2) return fold_in_order<kFoldChunk / 2, Compute, Isa>(at);
      return fold_eighths<Compute, Isa>(end, at);
    }
    const V last = last_term();
    // Terms that are dy itself need no buffer: compilers make a call of memcpy of the loop to it
    // (docs/lab/softmax-cpu.md#copies-that-were-calls-and-rows-fetched-ahead).
    if constexpr (kLog) {
      const auto in_run = [&](int j) TWINOPS_INLINE_BODY { return term_or(last, j); };
      if (end == kFoldChunk) return fold_in_order<kFoldChunk, Compute, Isa>(in_run);
      if (end == kFoldChunk / 2) return fold_in_order<kFoldChunk / 2, Compute, Isa>(in_run);
    }
    alignas(64) Compute terms[kFoldChunk];
    int j = 0;
    for (; j < whole; j += kLanes) save(terms + j, term(j));
    for (; j < end; j += kLanes) save(terms + j, j < count ? last : V(Compute(0)));
    return fold_eighths<Compute, Isa>(
        end, [&](int i) TWINOPS_INLINE_BODY { return load<Isa>(terms + i); });
  }

  // The fold of a whole chunk of bfloat16.
  TWINOPS_INLINE Compute total_of_words() const {
    using Two = EvenAndOdd<Compute, Isa>;
    const Two sums = fold_in_order<kFoldChunk, Compute, Isa>([&](int j) TWINOPS_INLINE_BODY {
      Two from_y{V(Compute(0)), V(Compute(0))}, from_dy;
      if constexpr (!kLog) load_two<Isa>(y + j, from_y.even, from_y.odd);
      load_two<Isa>(dy + j, from_dy.even, from_dy.odd);
      return Two{grad_term<kLog>(from_y.even, from_dy.even),
                 grad_term<kLog>(from_y.odd, from_dy.odd)};
    });
    return isa::fold_lanes(sums.even.v) + isa::fold_lanes(sums.odd.v);
  }

  // Writes dx, which may be y or dy unless it is streamed, which is past the caches. sum(j): the
  // sums of the rows that elements j, j + 1, ... belong to. kOneRow: all belong to one.
  template <bool kOneRow, class Out, class Sum>
  TWINOPS_INLINE void write(Out* dx, bool streamed, Compute scale, Sum&& sum) const {
    // Vectors of SSE2 make long loops: another one would make a program of them larger by a tenth.
    constexpr bool kDirect = sizeof(Out) == sizeof(Compute) && sizeof(V) > 16;
    if constexpr (kDirect) return write_dense<kOneRow, true>(dx, streamed, scale, sum);
    alignas(64) Out buffer[kFoldChunk];
    write_dense<kOneRow, false>(streamed ? buffer : dx, false, scale, sum);
    if (streamed) stream_elements<Isa>(dx, buffer, n);
  }

 private:
  TWINOPS_INLINE static V term(const In* from_y, const In* from_dy) {
    return grad_term<kLog>(kLog ? V(Compute(0)) : load<Isa>(from_y), load<Isa>(from_dy));
  }

  // The terms of the last vector, which is not whole, and those of any.
  TWINOPS_INLINE V last_term() const {
    const int rest = n % kLanes, whole = n - rest;
    if (rest == 0) return V(Compute(0));
    V from_y(Compute(0));
    if constexpr (!kLog) from_y = load_partial<Isa>(y + whole, rest);
    return grad_term<kLog>(from_y, load_partial<Isa>(dy + whole, rest));
  }
  TWINOPS_INLINE V term_or(V last, int j) const {
    if (j < n - n % kLanes) return term(j);
    return j < n ? last : V(Compute(0));
  }

  // add(v, j): v, which is element j's of the first half, and what the second half adds to it.
  // Terms are read in the order of memory, in which processors foresee them; a compiler would mix
  // them.
  template <int... i, class Add>
  TWINOPS_INLINE V fold_halves(std::integer_sequence<int, i...>, Add&& add) const {
    constexpr int kHalf = sizeof...(i);
    // As many as there are registers for: the compiler orders the rest.
    constexpr int kOrdered = 22, kFirst = kHalf - kOrdered;
    V v[] = {in_turn<(i < kOrdered)>(term(i * kLanes))...};
    ((v[i] = in_turn<(i >= kFirst)>(add(v[i], (kHalf + i) * kLanes))), ...);
    return fold_array<kHalf>(v);
  }
  template <bool kInTurn>
  TWINOPS_INLINE static V in_turn(V v) {
    if constexpr (kInTurn) isa::in_turn(v.v);
    return v;
  }
  template <int kCount>
  TWINOPS_INLINE static V fold_array(V* v) {
    if constexpr (kCount == 1) {
      return v[0];
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kCount / 2; ++i) v[i] = v[i] + v[i + kCount / 2];
      return fold_array<kCount / 2>(v);
    }
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

  template <bool kOneRow, bool kDirect, class Out, class Sum>
  TWINOPS_INLINE void write_dense(Out* dx, bool streamed, Compute factor, Sum&& sum) const {
    const V scale(factor);
    const auto scaled = [&](int j, V a, V b) TWINOPS_INLINE_BODY {
      return softmax_grad<kLog, In>(a, b, sum(j), scale);
    };
    if constexpr (kLog) {
      // Rare, or shorter than a vector.
      if (!powers_are_normal()) return write_each<kOneRow, false, kDirect>(dx, streamed, scaled);
      write_each<kOneRow, true, kDirect>(dx, streamed, [&](int j, V a, V b) TWINOPS_INLINE_BODY {
        return normal_log_softmax_grad<In>(a, b, sum(j), scale);
      });
    } else {
      // Four vectors at once are faster where much is computed or a lane would be moved.
      constexpr bool kAtOnce = in_words<kOneRow, Out>();
      if (factor != Compute(1)) return write_each<kOneRow, kAtOnce, kDirect>(dx, streamed, scaled);
      write_each<kOneRow, kAtOnce, kDirect>(dx, streamed, [&](int j, V a, V b) TWINOPS_INLINE_BODY {
        return softmax_grad<kLog, In>(a, b, sum(j));  // the same bits
      });
    }
  }

  // Whether gradients are computed as two vectors in one vector of words.
  template <bool kOneRow, class Out>
  static constexpr bool in_words() {
    return kOneRow && std::is_same_v<In, bfloat16> && std::is_same_v<Out, bfloat16>;
  }

  // kAtOnce: four vectors at once. kDirect: they may go past the caches.
  template <bool kOneRow, bool kAtOnce, bool kDirect, class Out, class Gradient>
  TWINOPS_INLINE void write_each(Out* dx, bool streamed, Gradient&& of) const {
    const auto gradient = [&](int j, const In* from_y, const In* from_dy) TWINOPS_INLINE_BODY {
      return of(j, load<Isa>(from_y), load<Isa>(from_dy));
    };
    const int count = n;
    if constexpr (kDirect)
      if (streamed && write_past_caches(dx, gradient)) return;
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
    fetch_ahead(fours, count - fours);
    if constexpr (kAtOnce)
      if (fours != 0) write_fours<kOneRow>(dx, fours, of);
#pragma GCC unroll 4
    for (int j = fours; j < at_last; j += kLanes) store<Isa>(dx + j, gradient(j, y + j, dy + j));
    store<Isa>(dx + at_last, last);
  }
  // Whole lines go past the caches, and the ends of the run, which share theirs with neighbours, do
  // not. Returns false, and nothing is written, where the run is short.
  template <class Out, class Gradient>
  TWINOPS_INLINE bool write_past_caches(Out* dx, Gradient&& gradient) const {
    constexpr int kLine = 64 / static_cast<int>(sizeof(Out));
    const int count = n;
    const auto address = reinterpret_cast<std::uintptr_t>(dx);
    if (count < 2 * kLine || address % sizeof(Out) != 0) return false;
    const int head = static_cast<int>(-address % 64 / sizeof(Out));
    const int end = head + (count - head) / kLine * kLine;
    alignas(64) Out edge[kLine];
    const auto line_at = [&](int first) TWINOPS_INLINE_BODY {
      for (int j = 0; j < kLine; j += kLanes)
        store<Isa>(edge + j, gradient(first + j, y + first + j, dy + first + j));
    };
    fetch_ahead(0, count);
    if (head != 0) {
      line_at(0);
      copy_partial<kLine>(dx, edge, head);
    }
    for (int j = head; j < end; j += kLanes)
      isa::stream(dx + j, canonical(gradient(j, y + j, dy + j)).v);
    if (end != count) {
      line_at(count - kLine);
      copy_partial<kLine>(dx + end, edge + kLine - (count - end), count - end);
    }
    return true;
  }
  // So that memory is busy while gradients are computed
  // (docs/lab/softmax-cpu.md#copies-that-were-calls-and-rows-fetched-ahead).
  TWINOPS_INLINE void fetch_ahead(int j, int count) const {
    if (!kLog || ahead == 0) return;
    fetch_to_read<3>(y + ahead + j, count);
    fetch_to_read<3>(dy + ahead + j, count);
  }
  // Writes the first `count` elements, four vectors at once, which nearly always hold no NaN.
  template <bool kOneRow, class Out, class Gradient>
  TWINOPS_INLINE void write_fours(Out* dx, int count, Gradient&& of) const {
    for (int j = 0; j < count; j += 4 * kLanes) {
      fetch_ahead(j, 4 * kLanes);
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
