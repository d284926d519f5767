// How a lane comes to its share of what softmax is taken of: read, scaled and masked.
//
// Of 16 bits in packs, plain, under a scale or under bytes, the greatest and the least are found
// two at a time, before the scale. Until 2026-11-26 that was done for plain rows alone. Share of
// the copy rate of bfloat16 on an H100, then and now, with kernels that spill less: log_softmax
// under bytes at 512 keys 0.85 and 0.98; softmax under a triangle at 128 1.09 and 1.16; rows that
// begin anywhere, under a scale at 1001 0.93 and 0.98.
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/softmax/mask.cuh"
#include "kernels_cuda/softmax/params.cuh"
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

// What softmax is taken of under a scale that is not 0, and of 16 bits perhaps a mask of bytes:
// what does not count becomes -infinity in its pack, and the range is found before the scale, which
// above 0 keeps the order. share: of `left` elements or, in whole packs, the next multiple of a
// pack's.
template <class S, class Job, class F>
__device__ __forceinline__ LaneRange<F> load_scaled(const Job& job, const S& share, int left,
                                                    const typename Job::In* at,
                                                    std::int64_t mask_at, F (&x)[S::kElements]) {
  using In = typename Job::In;
  constexpr int V = S::kPack, R = S::kElements / V;
  const bool negative = job.scale < F(0);  // then it is what -x is under -scale
  const In beyond = negative ? narrow<In>(kInfinity<F>) : kPad<In>;
  const Pack<In, V> none = pack_of<In, V>(kPad<In>);
  Pack<In, V> packs[R];
  const auto turn = [&] {
    if (negative)
#pragma unroll
      for (Pack<In, V>& pack : packs) turn_signs(pack);
  };
  const bool masked = kMaskOfWords<S, In> && job.mask.kind == RowMask::Kind::excluded;
  if (!masked) {
    share.load(at, 1, beyond, packs);
    turn();
  } else if constexpr (kMaskOfWords<S, In>) {
    const auto* const row = static_cast<const std::uint8_t*>(job.mask.data) + mask_at;
    Words<std::uint8_t, V> bytes[R];
    share.load_whole_ones(at, 1, beyond, packs);
    [[maybe_unused]] auto edges = share.read_edges(at, beyond);
    if constexpr (S::kRagged)
      read_mask_anywhere(share, row, bytes);
    else
      read_mask(share, row, bytes);
    turn();
#pragma unroll
    for (int r = 0; r < R; ++r) mask_words(bytes[r], none, packs[r]);
    if constexpr (S::kRagged) {
      mask_edges(share, row, negative, kPad<In>, edges);
      share.bring(edges, packs);
    }
  }
  if (const int inside = left % V; !S::kRagged && inside != 0) {
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (share.place(r) == left - inside) packs[r] = first_of(packs[r], none, inside);
  }
  const LaneRange<F> range = widen_share<S>(packs, true, x);
  const F scale = abs(job.scale);
#pragma unroll
  for (F& value : x) value = scaled(value, scale);
  return {scaled(range.max, scale), scaled(range.min, scale)};
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
  const std::int64_t mask_at = starts.of[Job::kMask + RowMask::kMask] + begin * job.mask.step;
  const bool apart = S::kRagged && job.mask.step != 1;  // elements of the mask's rows
  if constexpr (V > 1)
    if (job.mask.kind == RowMask::Kind::none ||
        (kMaskOfWords<S, In> && job.mask.kind == RowMask::Kind::excluded && !apart))
      return load_scaled(job, read, left, at, mask_at, x);
  if (S::kRagged && V >= 4 && !apart) {
    if constexpr (V >= 4) mask_anywhere(read, at, job.mask, mask_at, job.scale, x);
  } else {
    Pack<In, V> packs[R];
    const auto widen = [&] {
#pragma unroll
      for (int k = 0; k < R; ++k) widen_pack(packs[k], x + k * V);
    };
    if constexpr (kMaskInPacks<S>) {
      const auto load = [&] { read.load_whole_ones(at, 1, kPad<In>, packs); };
      mask_by_packs<In>(read, job.mask, mask_at, job.scale, load, widen, x);
    } else {
      read.load(at, step, kPad<In>, packs);
      widen();
      if (V == 1 && job.mask.kind == RowMask::Kind::none) {
#pragma unroll
        for (F& value : x) value = scaled(value, job.scale);
      } else if constexpr (V >= 4) {
        mask_apart<In>(read, job.mask, mask_at, job.scale, left, x);
      } else {
        mask_one_by_one<In>(read, job.mask, mask_at, job.scale, left, x);
      }
    }
  }
  if (!S::kRagged && left < S::kSlots) {  // else it is padded
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

}  // namespace twinops
