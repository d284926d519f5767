// A chunk of a row of softmax and log_softmax by vectors: what depends on the input alone, so that
// one copy of it serves all output types and both operators. Included only by files that are
// compiled once for each instruction set.
#pragma once

#include "kernels_cpu/softmax/masked_row.hpp"
#include "numerics/softmax_lanes.hpp"

namespace twinops {

template <class Isa, class In>
struct SoftmaxChunk {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Part = SoftmaxPart<Compute>;

  // Where the values of a chunk are, in x itself or read into `buffer`, and their maximum. Not
  // inlined, like the functions below, so that its loops exist once.
  struct Values {
    const Compute* at;
    Compute max;
  };
  [[gnu::noinline]] static Values values(const MaskedRow<In, Isa>& x, std::int64_t c, int n,
                                         Compute shift, Compute* buffer) {
    if constexpr (std::is_same_v<In, Compute>) {
      if (x.a->is_plain() && x.x.step == 1 && n == kFoldChunk && shift == Compute(0)) {
        const Compute* from = x.x.data + c * kFoldChunk;
        return {from, greatest_of(from)};
      }
    }
    return {buffer, isa::max_lanes(x.read(c, n, shift, buffer).v)};
  }

  // The part of n values. Their weights go to `buffer`, +0 up to padded(n).
  [[gnu::noinline]] static Part part(Values v, int n, Compute* buffer) {
    const WeightScale<Compute> scale = weight_scale(v.max);
    const V sums = fold_saved<Compute, Isa>(
        buffer, n, padded<Compute, Isa>(n), [&](int j) TWINOPS_INLINE_BODY {
          __builtin_prefetch(v.at + kFoldChunk + j);  // the chunk that follows
          return weight<In>(load<Isa>(v.at + j), scale);
        });
    return checked(v.max, isa::fold_lanes(sums.v));
  }

  // Reads a row of up to a chunk, of which `columns` elements count, to `to`; -infinity from there
  // up to `pitch`. Returns the maximum as MaskedRow does.
  [[gnu::noinline]] static V row_of_group(const SoftmaxArguments& a, const In* x, int columns,
                                          std::int64_t mask_at, Compute* to, int pitch) {
    const MaskedRow<In, Isa> row{{x, 1}, a.rows.length, columns, mask_at, &a};
    const V max = row.read(0, columns, Compute(0), to);
    for (int j = padded<Compute, Isa>(columns); j < pitch; j += V::kLanes)
      save(to + j, V(-kInfinity<Compute>));
    return max;
  }

  // The maximum of a whole chunk. If a value is NaN, the maximum of others or NaN.
  TWINOPS_INLINE static Compute greatest_of(const Compute* from) {
    constexpr int kAtOnce = 8;
    V max[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) max[k] = load<Isa>(from + k * V::kLanes);
    for (int j = kAtOnce * V::kLanes; j < kFoldChunk; j += kAtOnce * V::kLanes)
      for (int k = 0; k < kAtOnce; ++k)
        max[k] = larger(max[k], load<Isa>(from + j + k * V::kLanes));
    for (int half = kAtOnce / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) max[k] = larger(max[k], max[k + half]);
    return isa::max_lanes(max[0].v);
  }
};

}  // namespace twinops
