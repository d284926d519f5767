// How a lane gets its fragment of what softmax is taken of: read, scaled and masked. 16-bit vectors
// find the greatest and the least element two at a time, before the scale
// (docs/lab/softmax-mask-kernels.md#the-greatest-and-the-least-two-at-a-time).
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/softmax/mask.cuh"
#include "kernels_cuda/softmax/params.cuh"
#include "numerics/softmax.hpp"

namespace twinops {

// The greatest element that a lane holds; of 16-bit types also the least, if it is known, else
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

// Joins all 16-bit elements of vectors, two at a time.
template <class In, int R, int V, class Join>
__device__ __forceinline__ float reduce_vectors(const Vector<In, V> (&vectors)[R], Join&& join) {
  if constexpr (kTwoOf16Bits<In, V>) {
    std::uint32_t two = vectors[0].word;
#pragma unroll
    for (int r = 1; r < R; ++r) two = join(two, vectors[r].word);
    return widen_two(join(two, two >> 16 | two << 16), In{}).x;
  } else {
    std::uint32_t two[4 * R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const uint4 words = vectors[r].words;
      two[4 * r] = join(words.x, words.y);
      two[4 * r + 1] = join(words.z, words.w);
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      two[0] = join(two[4 * r], r == 0 ? two[1] : join(two[0], two[4 * r + 1]));
    return widen_two(join(two[0], two[0] >> 16 | two[0] << 16), In{}).x;
  }
}

// Widens vectors. least: looks for the least element, too; a pad is less than all. kWidenLast:
// widens after that, when x can take the vectors' registers. Which is better was found by trying
// (docs/lab/softmax-block-kernel.md#widening-after-the-maximum).
template <class S, bool kWidenLast = false, class In, int R, int V, class F>
__device__ __forceinline__ LaneRange<F> widen_fragment(const Vector<In, V> (&vectors)[R],
                                                       bool least, F (&x)[S::kElements]) {
  const auto widen = [&] {
#pragma unroll
    for (int r = 0; r < R; ++r) widen_vector(vectors[r], x + r * V);
  };
  if constexpr (sizeof(In) != 2 || V == 1) {
    widen();
    return range_of(x);
  } else {
    if (!kWidenLast) widen();
    LaneRange<F> range{reduce_vectors(vectors, greater_two<In>), -kInfinity<F>};
    if (least) range.min = reduce_vectors(vectors, lesser_two<In>);
    if (kWidenLast) widen();
    return range;
  }
}

// Takes `shift` from every x, where it is not 0.
template <class S, class F>
__device__ __forceinline__ LaneRange<F> moved(LaneRange<F> range, F shift, F (&x)[S::kElements]) {
  if (shift == F(0)) return range;
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) x[i] = x[i] - shift;
  return range_of(x);
}

// Loads what softmax is taken of under a scale that is not 0 and, in 16 bits, perhaps a mask of
// bytes. What is masked out becomes -infinity in its vector, and the range is found before the
// scale, which keeps the order if it is above 0. fragment: of `left` elements or, in aligned rows,
// of the next multiple of a vector's.
template <class S, class Params, class F>
__device__ __forceinline__ LaneRange<F> load_scaled(const Params& params, const S& fragment,
                                                    int left, const typename Params::In* at,
                                                    std::int64_t mask_at, F (&x)[S::kElements]) {
  using In = typename Params::In;
  constexpr int V = S::kVector, R = S::kElements / V;
  const bool negative = params.scale < F(0);  // scale * x is then (-scale) * (-x)
  const In beyond = negative ? narrow<In>(kInfinity<F>) : kPad<In>;
  const Vector<In, V> none = broadcast_vector<In, V>(kPad<In>);
  Vector<In, V> vectors[R];
  const auto turn = [&] {
    if (negative)
#pragma unroll
      for (Vector<In, V>& vector : vectors) negate_vector(vector);
  };
  const bool masked = kMaskOfWords<S, In> && params.mask.kind == RowMask::Kind::excluded;
  if (!masked) {
    fragment.load(at, 1, beyond, vectors);
    turn();
  } else if constexpr (kMaskOfWords<S, In>) {
    const auto* const row = static_cast<const std::uint8_t*>(params.mask.data) + mask_at;
    Words<std::uint8_t, V> bytes[R];
    fragment.load_whole_vectors(at, 1, beyond, vectors);
    [[maybe_unused]] auto head_tail = fragment.read_head_tail(at, beyond);
    if constexpr (S::kUnaligned)
      read_mask_unaligned(fragment, row, bytes);
    else
      read_mask(fragment, row, bytes);
    turn();
#pragma unroll
    for (int r = 0; r < R; ++r) mask_words(bytes[r], none, vectors[r]);
    if constexpr (S::kUnaligned) {
      mask_head_tail(fragment, row, negative, kPad<In>, head_tail);
      fragment.distribute(head_tail, vectors);
    }
  }
  if (const int inside = left % V; !S::kUnaligned && inside != 0) {
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (fragment.place(r) == left - inside) vectors[r] = splice(vectors[r], none, inside);
  }
  const LaneRange<F> range = widen_fragment<S>(vectors, true, x);
  const F scale = abs(params.scale);
#pragma unroll
  for (F& value : x) value = scaled(value, scale);
  return {scaled(range.max, scale), scaled(range.min, scale)};
}

// Loads what softmax is taken of under any scale and mask.
template <class S, class Params, class F>
__device__ __forceinline__ LaneRange<F> load_masked(const Params& params, const S& fragment,
                                                    std::int64_t r, const typename Params::In* at,
                                                    std::int64_t step, std::int64_t begin,
                                                    F (&x)[S::kElements]) {
  using In = typename Params::In;
  constexpr int V = S::kVector, R = S::kElements / V;
  const auto starts = row_starts(params.rows.outer, r);
  const std::int64_t columns = params.mask.columns(starts.of + kMask, params.rows.length);
  const int left =
      static_cast<int>(max(std::int64_t{0}, min(std::int64_t{fragment.left()}, columns - begin)));
  // Elements that do not count are not read, except those that fill a vector of an aligned row.
  S read = fragment;
  read.cut_to(S::kUnaligned ? left : (left + V - 1) & -V);
  const std::int64_t mask_at = starts.of[kMask + RowMask::kMask] + begin * params.mask.step;
  const bool mask_is_strided =
      S::kUnaligned && params.mask.step != 1;  // elements of the mask's rows
  if constexpr (V > 1)
    if (params.mask.kind == RowMask::Kind::none ||
        (kMaskOfWords<S, In> && params.mask.kind == RowMask::Kind::excluded && !mask_is_strided))
      return load_scaled(params, read, left, at, mask_at, x);
  if (S::kUnaligned && V >= 4 && !mask_is_strided) {
    if constexpr (V >= 4) mask_unaligned(read, at, params.mask, mask_at, params.scale, x);
  } else {
    Vector<In, V> vectors[R];
    const auto widen = [&] {
#pragma unroll
      for (int k = 0; k < R; ++k) widen_vector(vectors[k], x + k * V);
    };
    if constexpr (kMaskInVectors<S>) {
      const auto load = [&] { read.load_whole_vectors(at, 1, kPad<In>, vectors); };
      mask_by_vectors<In>(read, params.mask, mask_at, params.scale, load, widen, x);
    } else {
      read.load(at, step, kPad<In>, vectors);
      widen();
      if (V == 1 && params.mask.kind == RowMask::Kind::none) {
#pragma unroll
        for (F& value : x) value = scaled(value, params.scale);
      } else if constexpr (V >= 4) {
        mask_strided<In>(read, params.mask, mask_at, params.scale, left, x);
      } else {
        mask_one_by_one<In>(read, params.mask, mask_at, params.scale, left, x);
      }
    }
  }
  if (!S::kUnaligned && left < S::kSlots) {  // an unaligned fragment is padded already
#pragma unroll
    for (int i = 0; i < S::kElements; ++i)
      if (fragment.element(i / V, i % V) >= left) x[i] = -kInfinity<F>;
  }
  LaneRange<F> range = range_of(x);
  if constexpr (sizeof(In) == 2 && V > 1) {
    range.min = x[0];
#pragma unroll
    for (int i = 1; i < S::kElements; ++i) range.min = fmin(range.min, x[i]);
  }
  return range;
}

// Loads a lane's fragment of what softmax is taken of, from element `begin` of a row on, which lies
// at `at`.
template <class S, class Params, class F = typename Params::F>
__device__ __forceinline__ LaneRange<F> load_fragment(const Params& params, const S& fragment,
                                                      std::int64_t r, const typename Params::In* at,
                                                      std::int64_t step, std::int64_t begin,
                                                      F (&x)[S::kElements]) {
  using In = typename Params::In;
  if constexpr (!Params::kSimple)
    if (!params.plain) return load_masked(params, fragment, r, at, step, begin, x);
  Vector<In, S::kVector> vectors[S::kElements / S::kVector];
  fragment.load(at, step, kPad<In>, vectors);
  return widen_fragment<S>(vectors, fragment.full(), x);
}

}  // namespace twinops
