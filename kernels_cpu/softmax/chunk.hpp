// The steps of softmax_steps.hpp for a chunk and for a row of one chunk. None is inlined into
// another, so that each loop exists once: what depends on the input alone serves all types of
// results and both operators. Included only by files that are compiled once for each instruction
// set.
#pragma once

#include "kernels_cpu/softmax/softmax_steps.hpp"

namespace twinops {

// In: one of the types whose weights are alike (WeighedAs).
template <class Isa, class In>
struct SoftmaxWeights {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Part = SoftmaxPart<Compute>;
  using Values = typename SoftmaxSteps<Isa, Compute>::Values;

  [[gnu::noinline]] static Part part(Values v, int n, Compute* buffer) {
    const WeightScale<Compute> scale = weight_scale(v.max);
    const V sums = fold_saved<Compute, Isa>(
        buffer, n, padded<Compute, Isa>(n), [&](int j) TWINOPS_INLINE_BODY {
          __builtin_prefetch(v.at + kFoldChunk + j);  // the chunk that follows
          return weight<In>(load<Isa>(v.at + j), scale);
        });
    return checked(v.max, isa::fold_lanes(sums.v));
  }
};

template <class Isa, class In>
struct SoftmaxChunk {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Values = typename SoftmaxSteps<Isa, Compute>::Values;

  // If a value is NaN, the maximum is that of others or NaN.
  [[gnu::noinline]] static Values values(const InputRow& x, std::int64_t c, int n, Compute shift,
                                         Compute* buffer) {
    const MaskedRow<In, Isa> row(x);
    if constexpr (std::is_same_v<In, Compute>) {
      if (x.a->is_plain() && row.x.step == 1 && n == kFoldChunk && shift == Compute(0)) {
        const Compute* from = row.x.data + c * kFoldChunk;
        return {from, greatest_of(from)};
      }
    }
    return {buffer, isa::max_lanes(row.read(c, n, shift, buffer).v)};
  }

  // Reads a row of up to a chunk, of which `columns` elements count, to `to`; -infinity from there
  // up to `pitch`. Returns the maximum as MaskedRow does.
  [[gnu::noinline]] static V row_of_group(const SoftmaxArguments& a, const In* x, int columns,
                                          std::int64_t mask_at, Compute* to, int pitch) {
    const MaskedRow<In, Isa> row(InputRow{x, a.rows.length, columns, mask_at, &a});
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

template <class Isa, bool kLog, class In, class Out>
struct SoftmaxResults {
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Part = SoftmaxPart<Compute>;
  using Values = typename SoftmaxSteps<Isa, Compute>::Values;

  static Compute last(const Part& row) {
    return kLog ? log_of_sum<In>(row) : divisor_of_row<Out>(row.sum);
  }
  [[gnu::noinline]] static void results(const Compute* from, int n, Compute chunk_max,
                                        const Part& row, Compute last, void* to) {
    if constexpr (kLog) {
      const V m(row.max), l(last);
      write(to, n,
            [&](int j) TWINOPS_INLINE_BODY { return log_softmax(load<Isa>(from + j), m, l); });
    } else {
      quotients(to, n, divisor_of_chunk<Out>(row.max, last, chunk_max),
                [&](int j) TWINOPS_INLINE_BODY { return load<Isa>(from + j); });
    }
  }
  [[gnu::noinline]] static void again(Values v, int n, const Part& row, Compute last, void* to) {
    const WeightScale<Compute> scale = weight_scale(v.max);
    quotients(to, n, divisor_of_chunk<Out>(row.max, last, v.max), [&](int j) TWINOPS_INLINE_BODY {
      __builtin_prefetch(v.at + kFoldChunk + j);
      return weight<In>(load<Isa>(v.at + j), scale);
    });
  }
  [[gnu::noinline]] static void fill(Compute value, int n, void* to) {
    write(to, n, [y = V(value)](int) TWINOPS_INLINE_BODY { return y; });
  }

  // The row's last vector is padded with -infinity.
  static bool plain_short_row(const void* from, int n, void* to, bool cold) {
    const In* const x = static_cast<const In*>(from);
    alignas(64) Compute weights[kFoldChunk];
    const int whole = n - n % V::kLanes;
    V padded_last(-kInfinity<Compute>);
    if (whole != n)
      padded_last = load_partial<Isa>(x + whole, n - whole, narrow<In>(-kInfinity<Compute>));
    const auto value = [&](int j) TWINOPS_INLINE_BODY {
      return j < whole ? load<Isa>(x + j) : padded_last;
    };
    constexpr int kAtOnce = 4;
    V max[kAtOnce] = {padded_last, padded_last, padded_last, padded_last};
    int i = 0;
    for (; i + kAtOnce * V::kLanes <= whole; i += kAtOnce * V::kLanes)
      for (int k = 0; k < kAtOnce; ++k) max[k] = larger(max[k], load<Isa>(x + i + k * V::kLanes));
    for (; i < whole; i += V::kLanes) max[0] = larger(max[0], load<Isa>(x + i));
    const Compute greatest_x =
        isa::max_lanes(larger(larger(max[0], max[1]), larger(max[2], max[3])).v);
    const WeightScale<Compute> scale = weight_scale(greatest_x);
    if (cold) fetch_to_write(RowView<Out, Isa>{static_cast<Out*>(to), 1}, n);
    const V sums = fold_saved<Compute, Isa>(weights, n, padded<Compute, Isa>(n),
                                            [&](int j) TWINOPS_INLINE_BODY {
                                              __builtin_prefetch(x + n + j);  // the next row
                                              return weight<In>(value(j), scale);
                                            });
    const Compute sum = isa::fold_lanes(sums.v);
    if (!(abs(greatest_x) <= kExpReach<Compute>) || sum != sum) [[unlikely]]
      return false;
    if constexpr (kLog) {
      const V m(greatest_x), l(log_of_sum<In>(Part{greatest_x, sum}));
      write(to, n, [&](int j) TWINOPS_INLINE_BODY { return log_softmax(value(j), m, l); });
    } else {
      const auto divide = Division<Out, V>::by(V(divisor_of_row<Out>(sum)));
      write(to, n, [&](int j) TWINOPS_INLINE_BODY { return divide(load<Isa>(weights + j)); });
    }
    return true;
  }

 private:
  // f(j): the vector of element j, which holds no NaN but the canonical one.
  template <class Step>
  TWINOPS_INLINE static void write(void* to, int n, Step&& f) {
    write_chunk<true>(RowView<Out, Isa>{static_cast<Out*>(to), 1}, 0, n, f);
  }
  // Probabilities. weight(j): the vector of weights from j on.
  template <class Weight>
  TWINOPS_INLINE static void quotients(void* to, int n, Compute divisor, Weight&& weight) {
    const auto divide = Division<Out, V>::by(V(divisor));
    if (is_far<Out>(divisor)) [[unlikely]]
      write(to, n, [&](int j) TWINOPS_INLINE_BODY { return from_far(divide(weight(j))); });
    else
      write(to, n, [&](int j) TWINOPS_INLINE_BODY { return divide(weight(j)); });
  }
};

}  // namespace twinops
