// A run of up to a chunk of the backward passes' elements, one after the other in memory: the sum
// of its terms, and its gradients. Only files compiled once an instruction set include this.
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

  // The fold of the terms until one vector is left.
  TWINOPS_INLINE V sum() const {
    const int count = n, whole = count - count % kLanes, end = padded<Compute, Isa>(count);
    const auto term = [&](int j) TWINOPS_INLINE_BODY {
      return grad_term<kLog>(kLog ? V(Compute(0)) : load<Isa>(y + j), load<Isa>(dy + j));
    };
    if (whole == end) return fold_to_vector<Compute, Isa>(end, term);
    V last(Compute(0));
    if (whole != count) {
      alignas(64) In few[2][kLanes] = {};
      if constexpr (!kLog) copy_few<kLanes>(few[0], y + whole, count - whole);
      copy_few<kLanes>(few[1], dy + whole, count - whole);
      last = grad_term<kLog>(load<Isa>(few[0]), load<Isa>(few[1]));
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

  // Under the whole row's sum. dx may be y or dy.
  template <class Out>
  TWINOPS_INLINE void write(Out* dx, Compute row_sum, Compute row_scale) const {
    const V sum(row_sum), scale(row_scale);
    if constexpr (kLog)
      if (powers_are_normal())
        return write(dx, [&](V a, V b) TWINOPS_INLINE_BODY {
          return normal_log_softmax_grad<In>(a, b, sum, scale);
        });
    if (row_scale == Compute(1))  // the same bits
      return write(dx,
                   [&](V a, V b) TWINOPS_INLINE_BODY { return softmax_grad<kLog, In>(a, b, sum); });
    write(dx,
          [&](V a, V b) TWINOPS_INLINE_BODY { return softmax_grad<kLog, In>(a, b, sum, scale); });
  }

 private:
  // Of a run of a vector or more: whether half the instructions give the same bits.
  TWINOPS_INLINE bool powers_are_normal() const {
    if (n < kLanes) return false;
    const V limit(ExpTable<Compute>::kNormal);
    auto normal = abs(load<Isa>(y + n - kLanes)) < limit;
    for (int j = 0; j + kLanes <= n; j += kLanes) normal = normal & (abs(load<Isa>(y + j)) < limit);
    const V nan = select(normal, V(Compute(0)), V(std::numeric_limits<Compute>::quiet_NaN()));
    return !isa::holds_nan(nan.v, nan.v, nan.v, nan.v);
  }

  template <class Out, class Gradient>
  TWINOPS_INLINE void write(Out* dx, Gradient&& of) const {
    const auto gradient = [&](const In* from_y, const In* from_dy) TWINOPS_INLINE_BODY {
      return of(load<Isa>(from_y), load<Isa>(from_dy));
    };
    const int count = n;
    if (count < kLanes) {
      alignas(64) In few[2][kLanes] = {};
      alignas(64) Out out[kLanes];
      copy_few<kLanes>(few[0], y, count);
      copy_few<kLanes>(few[1], dy, count);
      store<Isa>(out, gradient(few[0], few[1]));
      return copy_few<kLanes>(dx, out, count);
    }
    // The last vector overlaps the one before it, which may overwrite what it is made of.
    const int at_last = count - kLanes;
    const V last = gradient(y + at_last, dy + at_last);
#pragma GCC unroll 4
    for (int j = 0; j < at_last; j += kLanes) store<Isa>(dx + j, gradient(y + j, dy + j));
    store<Isa>(dx + at_last, last);
  }
};

}  // namespace twinops
