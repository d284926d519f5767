// The kernel of softmax and log_softmax of rows of two chunks without scale and mask: a warp a row,
// which has no registers for what the second chunk leaves empty. x is read once, out is written
// once; each chunk is a fold, and the two parts are joined.
//
// 16-bit elements of the second chunk lie one by one, 64 bytes a load of the warp, in aligned rows
// up to 384 of them; else, and in float32, it lies in vectors. What was measured and tried:
// docs/lab/softmax-warp-kernel.md#rows-of-two-chunks.
#pragma once

#include "kernels_cuda/rows/lane_shapes.hpp"
#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

inline constexpr int kTwoChunkThreads = 64;  // with 128 up to 0.017 less

// Blocks that a multiprocessor is to hold, found by trying. With more of them registers spill; with
// fewer the others have too little to do meanwhile.
template <bool kLog, class In, class RemainderFragment>
constexpr int two_chunk_blocks() {
  constexpr int kElements = RemainderFragment::kElements;
  if (RemainderFragment::kVector > 1) return 2 * (8 - kElements / RemainderFragment::kVector);
  if (kElements <= 16) return kElements > 8 || (kLog && kElements == 4) ? 14 : 16;
  return kElements <= 20 || !kHasOutOfRange<In> ? 12 : 10;
}

// S: the fragment of the first chunk, RemainderFragment: of the second.
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
    const auto row = finish_row<kLog, Params>(SoftmaxPart<F>{max, sum} +
                                              SoftmaxPart<F>{remainder_max, remainder_sum});
    store_fragment<kLog>(params, fragment, starts.of[kOut], 1, x, row.max,
                         last_of_chunk<kLog, Params>(x, row, max));
    store_fragment<kLog>(params, remainder, starts.of[kOut] + kFoldChunk, 1, y, row.max,
                         last_of_chunk<kLog, Params>(y, row, remainder_max));
  }
}

}  // namespace twinops
