// What the kernels of softmax and log_softmax do with a lane's fragment of a chunk once it is
// loaded (softmax/load.cuh): weigh it, join it with the row's other chunks, and store the result.
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/softmax/load.cuh"

namespace twinops {

// The sum of a chunk's weights under its maximum. x becomes the weights, unless kKeepX. min: of the
// lane. none: the warp has no elements, and their weights count for nobody; said for 16-bit types
// alone, where instructions are the limit. is_of_row(i): whether x[i] is the row's, of which min is
// then the least; else it is the pad.
struct EveryElement {
  __device__ __forceinline__ constexpr bool operator()(int) const { return true; }
};
template <bool kKeepX, class S, class In, class F, class IsOfRow = EveryElement>
__device__ __forceinline__ F weigh(F (&x)[S::kElements], F max, F min, bool none = false,
                                   IsOfRow&& is_of_row = {}) {
  constexpr int V = S::kVector, R = S::kElements / V;
  F s[V];
  const auto weigh_by =
      [&](auto&& weight_of) {    // and fold at once: a lane has not got registers for all weights
        if constexpr (kKeepX) {  // place by place, which spills less where x stays
#pragma unroll
          for (int e = 0; e < V; ++e) {
            F w[R];
#pragma unroll
            for (int r = 0; r < R; ++r) w[r] = weight_of(r * V + e);
            fold_places<R, 1>(w);
            s[e] = w[0];
          }
        } else {
          F w[S::kElements];
#pragma unroll
          for (int i = 0; i < S::kElements; ++i) x[i] = w[i] = weight_of(i);
          fold_places<S::kElements, V>(w);
#pragma unroll
          for (int e = 0; e < V; ++e) s[e] = w[e];
        }
      };
  const F magic = weight_magic(max);
  if (sizeof(In) == 2 && V > 1 && __all_sync(kAllLanes, weight_is_normal(min, magic))) {
    weigh_by([&](int i) { return is_of_row(i) ? normal_weight<In>(x[i], magic) : F(0); });
  } else if (none) {
    return F(0);
  } else {
    const WeightScale<F> scale = weight_scale(max);
    weigh_by([&](int i) { return weight<In>(x[i], scale); });
  }
  return fold_over_lanes<S::kLanes>(s);
}

// What every element of a row needs of it: the maximum and the divisor (divisor_of_row) or (kLog)
// the logarithm of the sum.
template <class F>
struct SoftmaxRow {
  F max, last;
};
template <bool kLog, class Params, class F>
__device__ __forceinline__ SoftmaxRow<F> finish_row(SoftmaxPart<F> row) {
  if constexpr (kLog)
    return {row.max, log_of_sum<typename Params::In>(row)};
  else
    return {row.max, divisor_of_row<typename Params::Out>(row.sum)};
}

// Joins the parts of a warp's lanes, and `count` neighbouring parts in memory, up to kWarp; every
// lane has the result.
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_lanes(SoftmaxPart<F> part) {
  SoftmaxPart<F> row{greatest_of_lanes<kWarp>(part.max), F(0)};
  row.sum = fold_neighbours(part.sum_under(row.n()));
  return row;
}
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_parts(const SoftmaxPart<F>* parts, int count) {
  const int i = threadIdx.x % kWarp;
  return join_lanes(i < count ? parts[i] : SoftmaxPart<F>{});
}

// The same for up to 2 * kWarp parts, two a lane.
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_pairs(const SoftmaxPart<F>* parts, int count) {
  const int i = 2 * (threadIdx.x % kWarp);
  const SoftmaxPart<F> left = i < count ? parts[i] : SoftmaxPart<F>{};
  const SoftmaxPart<F> right = i + 1 < count ? parts[i + 1] : SoftmaxPart<F>{};
  SoftmaxPart<F> row{greatest_of_lanes<kWarp>(greatest_or_nan(left.max, right.max)), F(0)};
  row.sum = fold_neighbours(left.sum_under(row.n()) + right.sum_under(row.n()));
  return row;
}

// The same for up to 4 * kWarp parts, up to four a lane.
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_many(const SoftmaxPart<F>* parts, int count) {
  const int of_lane = count <= kWarp ? 1 : count <= 2 * kWarp ? 2 : 4;
  const int i = of_lane * static_cast<int>(threadIdx.x % kWarp);
  SoftmaxPart<F> mine[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    mine[k] = k < of_lane && i + k < count ? parts[i + k] : SoftmaxPart<F>{};
  const F left = greatest_or_nan(mine[0].max, mine[1].max);
  const F right = greatest_or_nan(mine[2].max, mine[3].max);
  SoftmaxPart<F> row{greatest_of_lanes<kWarp>(greatest_or_nan(left, right)), F(0)};
  F sums[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) sums[k] = mine[k].sum_under(row.n());
  row.sum = fold_neighbours((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return row;
}

// The result of the row that a warp's chunk is part of, by join(part of the chunk, shift). load(x)
// reads the chunk, which then becomes its weights, unless kKeepX. Where the row's maximum is out of
// exp's range, all chunks begin again, with the maximum (the shift) taken from every element. none:
// the warp has no chunk.
template <bool kKeepX, class S, class Params, class F, class Load, class Join>
__device__ __forceinline__ SoftmaxRow<F> settle(F (&x)[S::kElements], F& max, bool none,
                                                Load&& load, Join&& join) {
  F shift = F(0);
#pragma unroll 1
  while (true) {
    LaneRange<F> range = load(x);
    if constexpr (kMeetsOutOfRange<Params>) range = moved<S>(range, shift, x);
    max = greatest_of_lanes<S::kLanes>(range.max);
    const F sum = weigh<kKeepX, S, typename Params::In>(x, max, range.min, none);
    const SoftmaxRow<F> row = join(SoftmaxPart<F>{max, sum}, shift);
    if (!kMeetsOutOfRange<Params> || kind_of_row(row.max) != RowKind::out_of_range) return row;
    shift = row.max;
  }
}

// What the elements of a chunk with this maximum need, or (kLog) those of any chunk.
template <bool kLog, class Params, class F>
__device__ __forceinline__ F last_of_chunk(SoftmaxRow<F> row, F max) {
  if constexpr (kLog)
    return row.last;
  else
    return divisor_of_chunk<typename Params::Out>(row.max, row.last, max);
}

// What becomes of a vector of a chunk's elements (kLog) or weights. kFar: the chunk may be far.
template <bool kLog, bool kFar, class Out, class F>
class LastStep {
 public:
  __device__ __forceinline__ LastStep(F row_max, F last)
      : row_max_(row_max), last_(last), divide_(Division<Out, F>::by(last)) {}
  template <int V>
  __device__ __forceinline__ void operator()(F (&y)[V]) const {
#pragma unroll
    for (int e = 0; e < V; ++e) y[e] = kLog ? log_softmax(y[e], row_max_, last_) : divide_(y[e]);
    if (!kLog && kFar && is_far<Out>(last_)) {
#pragma unroll
      for (int e = 0; e < V; ++e) y[e] = from_far(y[e]);
    }
  }

 private:
  F row_max_, last_;
  Division<Out, F> divide_;
};

// The same for a chunk whose weights x are in registers. Those of a far chunk, which is rare, are
// divided here and then by 1, so that no vector that is stored asks whether its chunk is far.
template <bool kLog, class Params, class F, int N>
__device__ __forceinline__ F last_of_chunk(F (&x)[N], SoftmaxRow<F> row, F max) {
  using Out = typename Params::Out;
  const F last = last_of_chunk<kLog, Params>(row, max);
  if constexpr (!kLog) {
    if (is_far<Out>(last)) {
      LastStep<false, true, Out, F>(row.max, last)(x);
      return F(1);
    }
  }
  return last;
}

// Stores the same value, NaN or not, in all of a fragment. It is rare, but under masks a row may
// well be masked out throughout.
template <class Params, class S, class F>
__device__ __forceinline__ void store_special(const Params& params, const S& fragment,
                                              std::int64_t at, std::int64_t step, F value) {
  if constexpr (!Params::kSimple) {
    if constexpr (kMaskInVectors<S>)
      return fragment.store(params.out + at, step, [&](int, F(&y)[S::kVector]) {
#pragma unroll
        for (int e = 0; e < S::kVector; ++e) y[e] = value;
      });
  }
  fill_fragment(params.out + at, step, fragment.left(), fragment.lane(), S::kLanes,
                narrow<typename Params::Out>(value));
}

// Stores a row's fragment at out + at, from what value(r, x) gives for vector r: the row's elements
// (kLog) or their weights. scratch: for LaneFragment::store_mostly_full(), which unaligned
// fragments take if it is given. kFar: LastStep's.
template <bool kLog, bool kFar = false, class S, class Params, class F, class Value,
          class Scratch = std::nullptr_t>
__device__ __forceinline__ void store_values(const Params& params, S fragment, std::int64_t at,
                                             std::int64_t step, Value&& value, F row_max, F last,
                                             Scratch scratch = nullptr) {
  const RowKind kind = kind_of_row(row_max);
  if (kind != RowKind::ordinary) {
    store_special(params, fragment, at, step, special_row<F>(kind, params.masked_is_zero, kLog));
    fragment.cut_to(0);  // the lane goes on beside the others of its warp
  }
  const LastStep<kLog, kFar, typename Params::Out, F> last_step(row_max, last);
  const auto vector = [&](int r, F(&y)[S::kVector]) {
    value(r, y);
    last_step(y);
  };
  if constexpr (!std::is_null_pointer_v<Scratch>)
    if constexpr (S::kUnaligned)
      return fragment.template store_mostly_full<true>(params.out + at, vector, scratch);
  fragment.template store<true>(params.out + at, step, vector);
}
template <bool kLog, class S, class Params, class F, class Scratch = std::nullptr_t>
__device__ __forceinline__ void store_fragment(const Params& params, const S& fragment,
                                               std::int64_t at, std::int64_t step,
                                               const F (&x)[S::kElements], F row_max, F last,
                                               Scratch scratch = nullptr) {
  const auto value = [&](int r, F(&y)[S::kVector]) {
#pragma unroll
    for (int e = 0; e < S::kVector; ++e) y[e] = x[r * S::kVector + e];
  };
  store_values<kLog>(params, fragment, at, step, value, row_max, last, scratch);
}

}  // namespace twinops
