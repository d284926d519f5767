// A run of up to a chunk of the backward passes' elements, one after the other in memory, of one
// row or of rows side by side: the sum of its terms, and its gradients. Only files compiled once an
// instruction set include this.
//
// Memory: y and dy are read where they are, nothing beyond the run. Order: docs/softmax.md.
#pragma once

#include <limits>

#include "kernels_cpu/row_chunks.hpp"
#include "numerics/softmax.hpp"

namespace twinops {

template <class Isa, bool kLog, class In>
struct GradRun {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kLanes = V::kLanes;

  const In *y, *dy;
  int n;  // 1 to kFoldChunk

  // The terms of elements j, j + 1, ..., a vector of them.
  TWINOPS_INLINE V term(int j) const { return term(y + j, dy + j); }

  // The fold of the terms until one vector is left.
  TWINOPS_INLINE V sum() const {
    const int count = n, whole = count - count % kLanes, end = padded<Compute, Isa>(count);
    const auto at = [&](int j) TWINOPS_INLINE_BODY { return term(j); };
    if (whole == end) return fold_to_vector<Compute, Isa>(end, at);
    V last(Compute(0));
    if (whole != count) {
      alignas(64) In few[2][kLanes] = {};
      if constexpr (!kLog) copy_few<kLanes>(few[0], y + whole, count - whole);
      copy_few<kLanes>(few[1], dy + whole, count - whole);
      last = term(few[0], few[1]);
    }
    if (end <= 4 * kLanes) {
      return fold_few<Compute, Isa>(end, [&](int j) TWINOPS_INLINE_BODY {
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

  // dx: the run's own elements; it may be y or dy. sum(j) gives the sums of the rows that elements
  // j, j + 1, ... are of.
  template <class Out, class Sum>
  TWINOPS_INLINE void write(RowView<Out, Isa> dx, Compute scale, Sum&& sum) const {
    if (dx.step == 1 && !dx.streamed) return write_dense(dx.data, scale, sum);
    alignas(64) Out dxs[kFoldChunk];
    write_dense(dxs, scale, sum);
    if (dx.streamed) return stream_elements<Isa>(dx.data, dxs, n);
    for (int j = 0; j < n; ++j) dx.data[j * dx.step] = dxs[j];
  }

 private:
  TWINOPS_INLINE static V term(const In* from_y, const In* from_dy) {
    return grad_term<kLog>(kLog ? V(Compute(0)) : load<Isa>(from_y), load<Isa>(from_dy));
  }

  // Of a run of a vector or more: whether half the instructions give the same bits.
  TWINOPS_INLINE bool powers_are_normal() const {
    if (n < kLanes) return false;
    const V limit(ExpTable<Compute>::kNormal);
    auto normal = abs(load<Isa>(y + n - kLanes)) < limit;
    for (int j = 0; j + kLanes <= n; j += kLanes) normal = normal & (abs(load<Isa>(y + j)) < limit);
    const V nan = select(normal, V(Compute(0)), V(std::numeric_limits<Compute>::quiet_NaN()));
    return !isa::holds_nan(nan.v, nan.v, nan.v, nan.v);
  }

  template <class Out, class Sum>
  TWINOPS_INLINE void write_dense(Out* dx, Compute factor, Sum&& sum) const {
    const V scale(factor);
    if constexpr (kLog)
      if (powers_are_normal())
        return write_each(dx, [&](int j, V a, V b) TWINOPS_INLINE_BODY {
          return normal_log_softmax_grad<In>(a, b, sum(j), scale);
        });
    if (factor == Compute(1))  // the same bits
      return write_each(dx, [&](int j, V a, V b) TWINOPS_INLINE_BODY {
        return softmax_grad<kLog, In>(a, b, sum(j));
      });
    write_each(dx, [&](int j, V a, V b)
                       TWINOPS_INLINE_BODY { return softmax_grad<kLog, In>(a, b, sum(j), scale); });
  }

  template <class Out, class Gradient>
  TWINOPS_INLINE void write_each(Out* dx, Gradient&& of) const {
    const auto gradient = [&](int j, const In* from_y, const In* from_dy) TWINOPS_INLINE_BODY {
      return of(j, load<Isa>(from_y), load<Isa>(from_dy));
    };
    const int count = n;
    if (count < kLanes) {
      alignas(64) In few[2][kLanes] = {};
      alignas(64) Out out[kLanes];
      copy_few<kLanes>(few[0], y, count);
      copy_few<kLanes>(few[1], dy, count);
      store<Isa>(out, gradient(0, few[0], few[1]));
      return copy_few<kLanes>(dx, out, count);
    }
    // The last vector overlaps the one before it, which may overwrite what it is made of.
    const int at_last = count - kLanes;
    const V last = gradient(at_last, y + at_last, dy + at_last);
#pragma GCC unroll 4
    for (int j = 0; j < at_last; j += kLanes) store<Isa>(dx + j, gradient(j, y + j, dy + j));
    store<Isa>(dx + at_last, last);
  }
};

}  // namespace twinops
