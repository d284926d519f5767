// softmax and log_softmax of simple rows of two chunks, the second of which leaves places of every
// lane empty: a warp a row, with no registers for what is empty. A warp of its own spends as many
// instructions on a chunk of few elements as on a whole one.
//
// 16-bit elements of the second chunk lie one by one, 64 bytes a load of the warp: less work than
// the two edges of vectors wherever rows begin anywhere, and in whole vectors up to 384. Share of
// the copy rate of softmax and log_softmax on an H200, in vectors and so: bfloat16 at 1089 columns
// 0.84 and 0.98, 0.83 and 0.91, at 1281 0.84 and 0.98, 0.83 and 0.97, at 1537 0.86 and 0.96, 0.80
// and 0.96, at 1921, where a second warp had the chunk, 0.91 and 0.97, 0.90 and 0.92; float16 at
// 1089 0.86 and 0.98, 0.85 and 0.93, at 1281 0.85 and 0.98, 0.78 and 0.98, at 1537 0.85 and 0.97,
// 0.84 and 0.91; in whole vectors log_softmax at 1088 0.93 and 0.98, 0.94 and 1.00, at 1288 0.94
// and 1.01, 0.95 and 1.01, at 1416 no difference.
//
// In float32, where instructions matter less, vectors, up to one a lane, two where rows are
// unaligned: with a warp a chunk and so 1025 columns 0.93 and 0.98, log_softmax 0.85 and 0.98;
// 1280, which have two, 0.98 and 0.97.
//
// Tried and left: a warp a chunk whose empty vectors are passed over by branches (1280 columns 0.78
// to 0.77; 24000 0.88 to 0.74, by spills); two to eight chunks and up to three vectors a lane more,
// which a block's last warp takes along (whole rows of 2056 to 2560 columns 0.79 to 0.89 and 0.92
// to 0.97, but 2049 0.76 to 0.77, 2500 0.84 to 0.72, 3100 0.82 to 0.80, bfloat16 worse, by spills).
#pragma once

#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/rows/warp_scope.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

inline constexpr int kTwoChunkThreads = 64;  // with 128 up to 0.017 less of the copy rate

// Blocks that a multiprocessor is to have. With more of them registers spill, with fewer others
// have too little to do meanwhile; bfloat16 of 8, 12, 16, 20, 24 elements a lane with 12, 14, 16
// blocks: 0.86, 0.91, 0.95; 0.93, 0.98, 0.95; 0.90, 0.96, 0.78; with 10, 12, 14: 0.90, 0.96, 0.94;
// 0.90, 0.80, 0.62; its log_softmax of four 0.90, 0.94, 0.90. Of float32 in vectors with one more
// (16-bit ones of 1792 columns 1.01 to 0.96 of the copy rate, log_softmax of 1152 0.94 to 0.98),
// with one less 0.95 and 0.91.
template <bool kLog, class In, class RemainderFragment>
constexpr int two_chunk_blocks() {
  constexpr int kElements = RemainderFragment::kElements;
  if (RemainderFragment::kVector > 1) return 2 * (8 - kElements / RemainderFragment::kVector);
  if (kElements <= 16) return kElements > 8 || (kLog && kElements == 4) ? 14 : 16;
  return kElements <= 20 || !kHasOutOfRange<In> ? 12 : 10;
}

// S: how the first chunk lies in lanes, Tail: the second.
template <bool kLog, class Params, class S, class RemainderFragment>
__global__ void __launch_bounds__(kTwoChunkThreads,
                                  two_chunk_blocks<kLog, typename Params::In, RemainderFragment>())
    softmax_two_chunk_kernel(const __grid_constant__ Params params) {
  using F = typename Params::F;
  using In = typename Params::In;
  constexpr int kRows = kTwoChunkThreads / kWarp;  // of a block
  const int lane = threadIdx.x % kWarp;
  for (std::int64_t r = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
       r < params.rows.rows; r += std::int64_t{gridDim.x} * kRows) {
    const RowStarts<2> starts = row_starts(params.rows.outer, r);
    const In* const from = params.x + starts.of[kX];
    const S fragment(from, kFoldChunk, lane);
    const RemainderFragment remainder(from + kFoldChunk,
                                      static_cast<int>(params.rows.length) - kFoldChunk, lane);
    F x[S::kElements], y[RemainderFragment::kElements];
    Vector<In, S::kVector> vectors[S::kElements / S::kVector];
    Vector<In, RemainderFragment::kVector>
        remainder_vectors[RemainderFragment::kElements / RemainderFragment::kVector];
    if constexpr (S::kUnaligned)
      fragment.load_whole_vectors(from, 1, kPad<In>, vectors);
    else
      fragment.load_whole(from, vectors);
    remainder.load_whole_vectors(from + kFoldChunk, 1, kPad<In>, remainder_vectors);
    const auto head_tail =
        fragment.read_head_tail(from, kPad<In>);  // all loads are sent before one is used
    const auto remainder_head_tail = remainder.read_head_tail(from + kFoldChunk, kPad<In>);
    fragment.distribute(head_tail, vectors);
    remainder.distribute(remainder_head_tail, remainder_vectors);
    constexpr bool kWidenLast = !kLog || RemainderFragment::kVector == 1;
    LaneRange<F> range = widen_fragment<S, kWidenLast>(vectors, true, x);
    LaneRange<F> remainder_range =
        widen_fragment<RemainderFragment>(remainder_vectors, remainder.full(), y);
    F max = greatest_of_lanes<kWarp>(range.max);
    F remainder_max = greatest_of_lanes<kWarp>(remainder_range.max);
    if constexpr (kMeetsOutOfRange<Params>) {
      const F row_max = greatest_or_nan(max, remainder_max);
      if (kind_of_row(row_max) == RowKind::out_of_range) {
        range = moved<S>(range, row_max, x);
        remainder_range = moved<RemainderFragment>(remainder_range, row_max, y);
        max = greatest_of_lanes<kWarp>(range.max);
        remainder_max = greatest_of_lanes<kWarp>(remainder_range.max);
      }
    }
    const F sum = weigh<kLog, S, In>(x, max, range.min);
    const F remainder_sum =
        weigh<kLog, RemainderFragment, In>(y, remainder_max, remainder_range.min);
    const auto row = finish_row<kLog, In>(SoftmaxPart<F>{max, sum} +
                                          SoftmaxPart<F>{remainder_max, remainder_sum});
    store_fragment<kLog>(params, fragment, starts.of[kOut], 1, x, row.max,
                         last_of_chunk<kLog>(row, max));
    store_fragment<kLog>(params, remainder, starts.of[kOut] + kFoldChunk, 1, y, row.max,
                         last_of_chunk<kLog>(row, remainder_max));
  }
}

}  // namespace twinops
