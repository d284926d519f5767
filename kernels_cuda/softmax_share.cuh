// What the kernels of softmax and log_softmax do with a lane's share of a chunk: read it under
// scale and mask, weigh it, join it with the row's other chunks, and store what it becomes.
#pragma once

#include "kernels_cuda/row_fold.cuh"
#include "kernels_cuda/row_share.cuh"
#include "kernels_cuda/softmax_job.cuh"
#include "kernels_cuda/softmax_mask.cuh"
#include "numerics/softmax.hpp"

namespace twinops {

// The greatest of what a lane holds; of 16-bit types the least as well, if that is known, else
// -infinity.
template <class F>
struct LaneRange {
  F max, min;
};
template <int N, class F>
__device__ __forceinline__ LaneRange<F> range_of(const F (&x)[N]) {
  F max = x[0];
#pragma unroll
  for (int i = 1; i < N; ++i) max = greatest_or_nan(max, x[i]);
  return {max, -kInfinity<F>};
}

// What join makes of all 16-bit elements of packs, two at a time.
template <class In, int R, int V, class Join>
__device__ __forceinline__ float over_packs(const Pack<In, V> (&packs)[R], Join&& join) {
  if constexpr (kTwoOf16Bits<In, V>) {
    std::uint32_t two = packs[0].word;
#pragma unroll
    for (int r = 1; r < R; ++r) two = join(two, packs[r].word);
    return widen_two(join(two, two >> 16 | two << 16), In{}).x;
  } else {
    std::uint32_t two[4 * R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const uint4 words = packs[r].words;
      two[4 * r] = join(words.x, words.y);
      two[4 * r + 1] = join(words.z, words.w);
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      two[0] = join(two[4 * r], r == 0 ? two[1] : join(two[0], two[4 * r + 1]));
    return widen_two(join(two[0], two[0] >> 16 | two[0] << 16), In{}).x;
  }
}

// Widens packs. least: looks for the least element, too; a pad is less than all. kLast: after that,
// when x can take the packs' registers. What the compiler makes of it is 16 moves of registers a
// chunk less (bfloat16's softmax at 32768: 0.84 to 0.87 of the copy rate), or conflicts between
// banks of registers (its log_softmax at 16384: 0.90 to 0.83): found by trying.
template <class S, bool kLast = false, class In, int R, int V, class F>
__device__ __forceinline__ LaneRange<F> widen_share(const Pack<In, V> (&packs)[R], bool least,
                                                    F (&x)[S::kElements]) {
  const auto widen = [&] {
#pragma unroll
    for (int r = 0; r < R; ++r) widen_pack(packs[r], x + r * V);
  };
  if constexpr (sizeof(In) != 2 || V == 1) {
    widen();
    return range_of(x);
  } else {
    if (!kLast) widen();
    LaneRange<F> range{over_packs(packs, greater_two<In>), -kInfinity<F>};
    if (least) range.min = over_packs(packs, lesser_two<In>);
    if (kLast) widen();
    return range;
  }
}

// Where `shift` is not 0, x less it.
template <class S, class F>
__device__ __forceinline__ LaneRange<F> moved(LaneRange<F> range, F shift, F (&x)[S::kElements]) {
  if (shift == F(0)) return range;
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) x[i] = x[i] - shift;
  return range_of(x);
}

// What softmax is taken of, of a job that is not simple: read, scaled and masked.
template <class S, class Job, class F>
__device__ __forceinline__ LaneRange<F> load_masked(const Job& job, const S& share, std::int64_t r,
                                                    const typename Job::In* at, std::int64_t step,
                                                    std::int64_t begin, F (&x)[S::kElements]) {
  using In = typename Job::In;
  constexpr int V = S::kPack, R = S::kElements / V;
  const auto starts = row_starts(job.rows.outer, r);
  const std::int64_t columns = job.mask.columns(starts.of + Job::kMask, job.rows.length);
  const int left =
      static_cast<int>(max(std::int64_t{0}, min(std::int64_t{share.left()}, columns - begin)));
  // Elements that do not count are not read, but for those that fill a pack of a whole row.
  S read = share;
  read.cut_to(S::kRagged ? left : (left + V - 1) & -V);
  Pack<In, V> packs[R];
  const auto widen = [&] {
#pragma unroll
    for (int k = 0; k < R; ++k) widen_pack(packs[k], x + k * V);
  };
  const std::int64_t mask_at = starts.of[Job::kMask + RowMask::kMask] + begin * job.mask.step;
  if (job.mask.kind == RowMask::Kind::none) {
    read.load(at, step, kPad<In>, packs);
    widen();
#pragma unroll
    for (F& value : x) value = scaled(value, job.scale);
  } else if constexpr (kMaskInPacks<S>) {
    read.load_whole_ones(at, 1, kPad<In>, packs);
    mask_by_packs<In>(read, job.mask, mask_at, job.scale, widen, x);
  } else {
    read.load(at, step, kPad<In>, packs);
    widen();
    mask_one_by_one<In>(read, job.mask, mask_at, job.scale, left, x);
  }
  if (left < S::kSlots) {
#pragma unroll
    for (int i = 0; i < S::kElements; ++i)
      if (share.element(i / V, i % V) >= left) x[i] = -kInfinity<F>;
  }
  LaneRange<F> range = range_of(x);
  if constexpr (sizeof(In) == 2 && V > 1) {
    range.min = x[0];
#pragma unroll
    for (int i = 1; i < S::kElements; ++i) range.min = fmin(range.min, x[i]);
  }
  return range;
}

// A lane's share of what softmax is taken of, from element `begin` of a row on, which lies at `at`.
template <class S, class Job, class F = typename Job::F>
__device__ __forceinline__ LaneRange<F> load_share(const Job& job, const S& share, std::int64_t r,
                                                   const typename Job::In* at, std::int64_t step,
                                                   std::int64_t begin, F (&x)[S::kElements]) {
  using In = typename Job::In;
  if constexpr (!Job::kSimple)
    if (!job.plain) return load_masked(job, share, r, at, step, begin, x);
  Pack<In, S::kPack> packs[S::kElements / S::kPack];
  share.load(at, step, kPad<In>, packs);
  return widen_share<S>(packs, share.full(), x);
}

// The sum of a chunk's weights under its maximum. x becomes the weights, unless it is kept. min: of
// the lane. none: the warp has no elements; their weights are nobody's. Said of 16-bit types, where
// instructions are the limit; in float32 the branch spilled registers (log_softmax 0.58 at 50257).
// is_of_row(i): whether x[i] counts, which min is then the least of; else it is the pad.
struct EveryElement {
  __device__ __forceinline__ constexpr bool operator()(int) const { return true; }
};
template <bool kKeepX, class S, class In, class F, class IsOfRow = EveryElement>
__device__ __forceinline__ F weigh(F (&x)[S::kElements], F max, F min, bool none = false,
                                   IsOfRow&& is_of_row = {}) {
  F s[S::kPack];
  const auto weigh_by = [&](auto&& weight_of) {  // and fold at once: all weights are too many
    F w[S::kElements];
#pragma unroll
    for (int i = 0; i < S::kElements; ++i) {
      w[i] = weight_of(i);
      if constexpr (!kKeepX) x[i] = w[i];
    }
    fold_places<S::kElements, S::kPack>(w);
#pragma unroll
    for (int e = 0; e < S::kPack; ++e) s[e] = w[e];
  };
  const F magic = weight_magic(max);
  if (sizeof(In) == 2 && S::kPack > 1 && __all_sync(kAllLanes, weight_is_normal(min, magic))) {
    weigh_by([&](int i) { return is_of_row(i) ? normal_weight<In>(x[i], magic) : F(0); });
  } else if (none) {
    return F(0);
  } else {
    const WeightScale<F> scale = weight_scale(max);
    weigh_by([&](int i) { return weight<In>(x[i], scale); });
  }
  return fold_over_lanes<S::kLanes>(s);
}

// What every element of a row takes: the row's maximum and, of its sum, the inverse or (kLog) the
// logarithm.
template <class F>
struct SoftmaxRow {
  F max, last;
};
template <bool kLog, class In, class F>
__device__ __forceinline__ SoftmaxRow<F> finish_row(SoftmaxPart<F> row) {
  return {row.max, kLog ? log_of_sum<In>(row) : F(1) / row.sum};
}

// What the parts of a warp's lanes make, and what `count` neighbours in memory, up to kWarp; every
// lane has it.
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

// The same of up to 2 * kWarp, two a lane.
template <class F>
__device__ __forceinline__ SoftmaxPart<F> join_pairs(const SoftmaxPart<F>* parts, int count) {
  const int i = 2 * (threadIdx.x % kWarp);
  const SoftmaxPart<F> left = i < count ? parts[i] : SoftmaxPart<F>{};
  const SoftmaxPart<F> right = i + 1 < count ? parts[i + 1] : SoftmaxPart<F>{};
  SoftmaxPart<F> row{greatest_of_lanes<kWarp>(greatest_or_nan(left.max, right.max)), F(0)};
  row.sum = fold_neighbours(left.sum_under(row.n()) + right.sum_under(row.n()));
  return row;
}

// The same of up to 4 * kWarp, up to four a lane.
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

// The row that a warp's chunk is part of, by join(part of the chunk, shift). load(x) reads the
// chunk, which then becomes its weights, unless it is kept. Where the row's maximum is out of
// reach, all begin again, with elements from which it is taken, the shift. none: the warp has no
// chunk.
template <bool kKeepX, class S, class Job, class F, class Load, class Join>
__device__ __forceinline__ SoftmaxRow<F> settle(F (&x)[S::kElements], F& max, bool none,
                                                Load&& load, Join&& join) {
  F shift = F(0);
#pragma unroll 1
  while (true) {
    LaneRange<F> range = load(x);
    if constexpr (kMeetsFar<Job>) range = moved<S>(range, shift, x);
    max = greatest_of_lanes<S::kLanes>(range.max);
    const F sum = weigh<kKeepX, S, typename Job::In>(x, max, range.min, none);
    const SoftmaxRow<F> row = join(SoftmaxPart<F>{max, sum}, shift);
    if (!kMeetsFar<Job> || kind_of_row(row.max) != RowKind::far) return row;
    shift = row.max;
  }
}

// What the elements of a chunk of this maximum take, or (kLog) of any.
template <bool kLog, class F>
__device__ __forceinline__ F last_of_chunk(SoftmaxRow<F> row, F max) {
  return kLog ? row.last : softmax_factor(row.max, row.last, max);
}

// Stores the same value, NaN or not, in all of a share. Rows that are not simple may well be masked
// out throughout.
template <class Job, class S, class F>
__device__ __forceinline__ void store_special(const Job& job, const S& share, std::int64_t at,
                                              std::int64_t step, F value) {
  if constexpr (!Job::kSimple) {
    if constexpr (kMaskInPacks<S>)
      return share.store(job.out + at, step, [&](int, F(&y)[S::kPack]) {
#pragma unroll
        for (F& element : y) element = value;
      });
  }
  fill_share(job.out + at, step, share.left(), share.lane(), S::kLanes,
             narrow<typename Job::Out>(value));
}

// Stores a share of a row at out + at, of what value(r, x) gives for pack r: the row's elements
// (kLog) or their weights.
template <bool kLog, class S, class Job, class F, class Value>
__device__ __forceinline__ void store_values(const Job& job, S share, std::int64_t at,
                                             std::int64_t step, Value&& value, F row_max, F last) {
  const RowKind kind = kind_of_row(row_max);
  if (kind != RowKind::ordinary) {
    store_special(job, share, at, step, special_row<F>(kind, job.masked_is_zero, kLog));
    share.cut_to(0);  // which goes on beside the others of its warp
  }
  share.template store<true>(job.out + at, step, [&](int r, F(&y)[S::kPack]) {
    value(r, y);
#pragma unroll
    for (int e = 0; e < S::kPack; ++e) y[e] = kLog ? log_softmax(y[e], row_max, last) : y[e] * last;
  });
}
template <bool kLog, class S, class Job, class F>
__device__ __forceinline__ void store_share(const Job& job, const S& share, std::int64_t at,
                                            std::int64_t step, const F (&x)[S::kElements],
                                            F row_max, F last) {
  const auto value = [&](int r, F(&y)[S::kPack]) {
#pragma unroll
    for (int e = 0; e < S::kPack; ++e) y[e] = x[r * S::kPack + e];
  };
  store_values<kLog>(job, share, at, step, value, row_max, last);
}

}  // namespace twinops
