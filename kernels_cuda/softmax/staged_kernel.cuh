// softmax and log_softmax of short rows that begin anywhere, where they lie side by side
// (staged_rows.cuh). Rows that their own lanes read from global memory have up to 16 edge elements
// each, which for rows of a few vectors is most of the work. Share of the copy rate on an H200, so
// and then staged: float16 10 columns 0.27 and 0.79, 33 0.40 and 1.00, 65 0.60 and 0.99, 129 0.82
// and 0.96, 513 0.87 and 0.96; float32 3 columns 0.14 and 0.99, 10 0.43 and 0.99, 65 0.88 and 1.00.
// A row has few lanes with many words each, up to 26: what is there once a lane (a row's ends, sums
// over lanes, a logarithm) is there less often. Blocks of a multiprocessor are as many as leave
// registers for that. Bfloat16 on an H200, softmax and its logarithm, with up to 18 words in nine
// or eight blocks, as was until 2026-11-27, and so: 77 columns, four lanes of 10 words, 0.94 and
// 0.86, two of 20 in seven blocks 1.00 and 0.98; 100 0.98 and 0.92, 0.99 and 0.99; 180 0.93 and
// 0.87, 0.99 and 0.99; 361 0.93 and 0.86, 0.99 and 0.96. 20 words in eight blocks have 1.00 and
// 0.97, in six 0.98 and 0.94, and 33 (257 columns) in their best, five, 0.87 and 0.84.
// Tried and left, by a benchmark of the kernels alone, float16's softmax and its logarithm: one
// block of a multiprocessor less (513 columns 0.90 and 0.80 in place of 0.94 and 0.88); rows once a
// block (65 columns 0.86 and 0.80 in place of 0.96 and 0.89), or 24 kB of them (511 columns 0.88
// and 0.83 in place of 0.95 and 0.91); elements one by one (65 columns 0.59 in softmax_peers.py).
//
// Under scales and masks, until 2026-11-26 with fewer numbers of words and element by element, and
// now, bfloat16's softmax on an H100: 33 columns under bytes 0.74 and 0.81, under numbers 0.61 and
// 0.79; 257 0.56 and 0.73, 0.53 and 0.74; 500 0.56 and 0.81, 0.54 and 0.80, under a triangle 0.86
// and 0.94. Up to 20 words a lane, but up to 26 where no numbers are added; on an H200 with 20 and
// 26, softmax at 180 columns under a scale 0.75 and 0.84, under a triangle 0.68 and 0.77, under
// bytes 0.61 and 0.66, but under numbers 0.62 and 0.53.
#pragma once

#include "kernels_cuda/rows/staged_rows.cuh"
#include "kernels_cuda/softmax/mask_staged.cuh"
#include "kernels_cuda/softmax/warp_kernel.cuh"

namespace twinops {

// Widens a lane's share of a row, of which the first `left` elements count.
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

// The same of a row at `at` in shared memory, as it is.
template <class S, class In, class F>
__device__ __forceinline__ LaneRange<F> load_staged(const S& fragment, const In* at,
                                                    F (&x)[S::kElements]) {
  Vector<In, S::kVector> vectors[S::kElements / S::kVector];
  fragment.load(at, vectors);
  return widen_staged(fragment, fragment.left(), vectors, x);
}

// Under a scale that is not 0, and of 16 bits perhaps a mask of bytes: as load_scaled() does it.
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

// Under any scale and mask, of row r of all.
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

// What store_fragment() asks a job for.
template <class Out_>
struct StagedOutput {
  using Out = Out_;
  static constexpr bool kSimple = true;
  Out* out;
  bool masked_is_zero;
};

// Blocks of a multiprocessor. With 9 and 8 the kernels of masks spilled in 16 bits: 100 columns on
// an H100 under a scale 0.80 and 0.95 of the copy rate, under a triangle 0.78 and 0.88; with 6 in
// place of 7 257 columns under bytes have 0.65 in place of 0.71. Float32 loses by seven (33 columns
// under numbers 0.70 to 0.62).
template <class Params, class S>
constexpr int staged_blocks() {
  if (!Params::kSimple && S::kVector == 2) return 7;
  if (S::kElements <= 36) return S::kElements <= 32 ? kMostShortBlocks : 8;
  return S::kElements <= 44 ? 7 : 6;
}

// S: a StagedFragment.
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
    const auto row = finish_row<kLog, In>(SoftmaxPart<F>{max, sum});
    store_fragment<kLog>(here, fragment, begin, 1, x, row.max, row.last);
  }
  staged.store(params.out + block.begin);
}

}  // namespace twinops
