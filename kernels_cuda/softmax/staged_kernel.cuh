// The kernel of softmax and log_softmax of short unaligned rows that lie side by side, by way of
// shared memory (rows/staged_rows.cuh). x is read once and out written once, 16 bytes at a time; in
// between lanes read and write words of shared memory. A row has few lanes with up to 26 words
// each, and the sum is a fold over words, then lanes. Why, and what was tried:
// docs/lab/softmax-warp-kernel.md#staged-rows.
#pragma once

#include "kernels_cuda/rows/staged_rows.cuh"
#include "kernels_cuda/softmax/mask_staged.cuh"
#include "kernels_cuda/softmax/warp_kernel.cuh"

namespace twinops {

// Widens a lane's fragment of a row, of which the first `left` elements count.
template <class S, class In, int V, int R, class F>
__device__ __forceinline__ LaneRange<F> widen_staged(const S& fragment, int left,
                                                     Vector<In, V> (&vectors)[R],
                                                     F (&x)[S::kElements]) {
  F least = -kInfinity<F>;
  if constexpr (V == 2)
    if (left == fragment.left()) {
      Vector<In, V> padded[R];
#pragma unroll
      for (int r = 0; r < R; ++r) padded[r] = vectors[r];
      fragment.pad(left, narrow<In>(kInfinity<F>), padded);
      least = reduce_vectors(padded, lesser_two<In>);
    }
  fragment.pad(left, kPad<In>, vectors);
  return {widen_fragment<S>(vectors, false, x).max, least};
}

// Loads a row without scale and mask that lies at `at` in shared memory.
template <class S, class In, class F>
__device__ __forceinline__ LaneRange<F> load_staged(const S& fragment, const In* at,
                                                    F (&x)[S::kElements]) {
  Vector<In, S::kVector> vectors[S::kElements / S::kVector];
  fragment.load(at, vectors);
  return widen_staged(fragment, fragment.left(), vectors, x);
}

// Loads a row under a scale that is not 0 and, in 16 bits, perhaps a mask of bytes, as
// load_scaled() does.
template <class S, class Params, class F>
__device__ __forceinline__ LaneRange<F> load_staged_scaled(const Params& params, const S& fragment,
                                                           int left, const typename Params::In* at,
                                                           std::int64_t mask_at,
                                                           F (&x)[S::kElements]) {
  using In = typename Params::In;
  constexpr int V = S::kVector, R = S::kElements / V;
  Vector<In, V> vectors[R];
  fragment.load(at, vectors);
  if (params.scale < F(0))
#pragma unroll
    for (Vector<In, V>& vector : vectors) negate_vector(vector);
  if constexpr (V == 2)
    if (params.mask.kind == RowMask::Kind::excluded)
      exclude_staged(fragment, static_cast<const std::uint8_t*>(params.mask.data) + mask_at,
                     vectors);
  LaneRange<F> range = widen_staged(fragment, left, vectors, x);
  const F scale = abs(params.scale);
#pragma unroll
  for (F& value : x) value = scaled(value, scale);
  return {scaled(range.max, scale), scaled(range.min, scale)};
}

// Loads row r of all under any scale and mask.
template <class S, class Params, class F>
__device__ __forceinline__ LaneRange<F> load_staged_masked(const Params& params, const S& fragment,
                                                           std::int64_t r,
                                                           const typename Params::In* at,
                                                           F (&x)[S::kElements]) {
  using In = typename Params::In;
  constexpr int V = S::kVector, R = S::kElements / V;
  const auto starts = row_starts(params.rows.outer, min(r, params.rows.rows - 1));
  const auto left = static_cast<int>(params.mask.columns(starts.of + kMask, params.rows.length));
  const std::int64_t mask_at = starts.of[kMask + RowMask::kMask];
  if (params.mask.kind == RowMask::Kind::none ||
      (V == 2 && params.mask.kind == RowMask::Kind::excluded && params.mask.step == 1))
    return load_staged_scaled(params, fragment, left, at, mask_at, x);
  Vector<In, V> vectors[R];
  fragment.load(at, vectors);
  if (params.mask.step == 1) {
    mask_staged(fragment, params.mask, mask_at, params.scale, vectors, x);
  } else {
#pragma unroll
    for (int k = 0; k < R; ++k) widen_vector(vectors[k], x + k * V);
    mask_strided<In>(fragment, params.mask, mask_at, params.scale, left, x);
  }
  LaneRange<F> range{-kInfinity<F>, kInfinity<F>};
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) {
    if (fragment.has(i))
      range = {greatest_or_nan(range.max, x[i]), fmin(range.min, x[i])};
    else
      x[i] = -kInfinity<F>;
  }
  if (left == fragment.left()) return range;
#pragma unroll
  for (int i = 0; i < S::kElements; ++i)
    if (!is_below(fragment.element(i / V, i % V), left)) x[i] = -kInfinity<F>;
  return range_of(x);
}

// What store_fragment() asks its parameters for.
template <class Out_>
struct StagedOutput {
  using Out = Out_;
  static constexpr bool kSimple = true;
  Out* out;
  bool masked_is_zero;
};

// Blocks of a multiprocessor, found by trying (docs/lab/softmax-warp-kernel.md#staged-rows).
template <class Params, class S>
constexpr int staged_blocks() {
  if (!Params::kSimple && S::kVector == 2) return 7;
  if (S::kElements <= 36) return S::kElements <= 32 ? kMostShortBlocks : 8;
  return S::kElements <= 44 ? 7 : 6;
}

// S: a StagedFragment. rounds: how many times as many rows as a block has threads for.
template <bool kLog, class Params, class S>
__global__ void __launch_bounds__(kShortThreads, (staged_blocks<Params, S>()))
    softmax_staged_kernel(const __grid_constant__ Params params, const int rounds) {
  using F = typename Params::F;
  using In = typename Params::In;
  TWINOPS_DYNAMIC_SHARED(smem);
  const StagedBlock<S> block(params.rows, rounds);
  const StagedRows<In> staged(smem, params.x + block.begin, block.count);
  staged.fetch(params.x + block.begin);
  staged.wait();

  const StagedOutput<typename Params::Out> here{staged.memory(), params.masked_is_zero};
#pragma unroll 1
  for (int r = staged_row<S>(block.length); r < block.rows; r += kStagedRows<S>) {
    const int begin = staged.shift() + r * block.length;
    const S fragment(begin, block.length, threadIdx.x % S::kLanes);
    F x[S::kElements];
    LaneRange<F> range;
    if constexpr (Params::kSimple)
      range = load_staged(fragment, staged.memory() + begin, x);
    else
      range = load_staged_masked(params, fragment, block.first + r, staged.memory() + begin, x);
    F max = greatest_of_lanes<S::kLanes>(range.max);
    if (kMeetsOutOfRange<Params> && kind_of_row(max) == RowKind::out_of_range) {
      range = moved<S>(range, max, x);
      max = F(0);
    }
    const auto is_of_row = [&](int i) { return fragment.has(i); };
    const F sum = weigh<kLog, S, In>(x, max, range.min, false, is_of_row);
    const auto row = finish_row<kLog, Params>(SoftmaxPart<F>{max, sum});
    store_fragment<kLog>(here, fragment, begin, 1, x, row.max, row.last);
  }
  staged.store(params.out + block.begin);
}

}  // namespace twinops
