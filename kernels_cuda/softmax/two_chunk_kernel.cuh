// softmax and log_softmax of simple rows of two chunks, the second of which leaves places of every
// lane empty: a warp a row, with no registers for what is empty. A warp of its own spends as many
// instructions on a chunk of few elements as on a whole one.
//
// 16-bit elements of the second chunk lie one by one, 64 bytes a load of the warp: less work than
// the two edges of packs wherever rows begin anywhere, and in whole packs up to 384. Share of the
// copy rate of softmax and log_softmax on an H200, in packs and so: bfloat16 at 1089 columns 0.84
// and 0.98, 0.83 and 0.91, at 1281 0.84 and 0.98, 0.83 and 0.97, at 1537 0.86 and 0.96, 0.80 and
// 0.96, at 1921, where a second warp had the chunk, 0.91 and 0.97, 0.90 and 0.92; float16 at 1089
// 0.86 and 0.98, 0.85 and 0.93, at 1281 0.85 and 0.98, 0.78 and 0.98, at 1537 0.85 and 0.97, 0.84
// and 0.91; in whole packs log_softmax at 1088 0.93 and 0.98, 0.94 and 1.00, at 1288 0.94 and 1.01,
// 0.95 and 1.01, at 1416 no difference.
//
// In float32, where instructions matter less, packs, up to one a lane, two where rows are ragged:
// with a warp a chunk and so 1025 columns 0.93 and 0.98, log_softmax 0.85 and 0.98; 1280, which
// have two, 0.98 and 0.97.
//
// Tried and left: a warp a chunk whose empty packs are passed over by branches (1280 columns 0.78
// to 0.77; 24000 0.88 to 0.74, by spills); two to eight chunks and up to three packs a lane more,
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
// 0.90, 0.80, 0.62; its log_softmax of four 0.90, 0.94, 0.90. Of float32 in packs with one more
// (16-bit ones of 1792 columns 1.01 to 0.96 of the copy rate, log_softmax of 1152 0.94 to 0.98),
// with one less 0.95 and 0.91.
template <bool kLog, class In, class Tail>
constexpr int two_chunk_blocks() {
  constexpr int kElements = Tail::kElements;
  if (Tail::kPack > 1) return 2 * (8 - kElements / Tail::kPack);
  if (kElements <= 16) return kElements > 8 || (kLog && kElements == 4) ? 14 : 16;
  return kElements <= 20 || !kHasFar<In> ? 12 : 10;
}

// S: how the first chunk lies in lanes, Tail: the second.
template <bool kLog, class Job, class S, class Tail>
__global__ void __launch_bounds__(kTwoChunkThreads,
                                  two_chunk_blocks<kLog, typename Job::In, Tail>())
    softmax_two_chunk_kernel(const __grid_constant__ Job job) {
  using F = typename Job::F;
  using In = typename Job::In;
  constexpr int kRows = kTwoChunkThreads / kWarp;  // of a block
  const int lane = threadIdx.x % kWarp;
  for (std::int64_t r = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp; r < job.rows.rows;
       r += std::int64_t{gridDim.x} * kRows) {
    const RowStarts<2> starts = row_starts(job.rows.outer, r);
    const In* const from = job.x + starts.of[1];
    const S share(from, kFoldChunk, lane);
    const Tail tail(from + kFoldChunk, static_cast<int>(job.rows.length) - kFoldChunk, lane);
    F x[S::kElements], y[Tail::kElements];
    Pack<In, S::kPack> packs[S::kElements / S::kPack];
    Pack<In, Tail::kPack> tail_packs[Tail::kElements / Tail::kPack];
    if constexpr (S::kRagged)
      share.load_whole_ones(from, 1, kPad<In>, packs);
    else
      share.load_whole(from, packs);
    tail.load_whole_ones(from + kFoldChunk, 1, kPad<In>, tail_packs);
    const auto edges = share.read_edges(from, kPad<In>);  // all loads are sent before one is used
    const auto tail_edges = tail.read_edges(from + kFoldChunk, kPad<In>);
    share.bring(edges, packs);
    tail.bring(tail_edges, tail_packs);
    constexpr bool kLast = !kLog || Tail::kPack == 1;
    LaneRange<F> range = widen_share<S, kLast>(packs, true, x);
    LaneRange<F> tail_range = widen_share<Tail>(tail_packs, tail.full(), y);
    F max = greatest_of_lanes<kWarp>(range.max);
    F tail_max = greatest_of_lanes<kWarp>(tail_range.max);
    if constexpr (kMeetsFar<Job>) {
      const F row_max = greatest_or_nan(max, tail_max);
      if (kind_of_row(row_max) == RowKind::far) {
        range = moved<S>(range, row_max, x);
        tail_range = moved<Tail>(tail_range, row_max, y);
        max = greatest_of_lanes<kWarp>(range.max);
        tail_max = greatest_of_lanes<kWarp>(tail_range.max);
      }
    }
    const F sum = weigh<kLog, S, In>(x, max, range.min);
    const F tail_sum = weigh<kLog, Tail, In>(y, tail_max, tail_range.min);
    const auto row =
        finish_row<kLog, In>(SoftmaxPart<F>{max, sum} + SoftmaxPart<F>{tail_max, tail_sum});
    store_share<kLog>(job, share, starts.of[0], 1, x, row.max, last_of_chunk<kLog>(row, max));
    store_share<kLog>(job, tail, starts.of[0] + kFoldChunk, 1, y, row.max,
                      last_of_chunk<kLog>(row, tail_max));
  }
}

}  // namespace twinops
