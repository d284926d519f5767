// The kernel of softmax and log_softmax of short rows: up to a chunk, 2^k lanes a row, several rows
// a warp (rows/warp_scope.cuh). Every row is read once and written once, and stays in registers.
#pragma once

#include "kernels_cuda/rows/warp_scope.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// Threads of a block of simple short rows whose lanes have two vectors or more: so many that a
// block takes about 4 kB. With 64 in place of 128 float16 has 0.98 in place of 0.97 of the copy
// rate at 64, 256, 512 and 1024 columns, float32 0.99 in place of 0.97 at 512; with 32 in place of
// 64 float32 in whole vectors has 1.00 in place of 0.98 at 1024, but begun anywhere 0.96 in place
// of 0.99 at 257 and its log_softmax 0.85. Gradients and staged rows, and those of one vector, lose
// up to a quarter.
template <class Params, class S>
constexpr int short_threads() {
  if (!Params::kSimple || S::kElements < 2 * S::kVector) return kShortThreads;
  const bool alone = S::kVector == 4 && S::kElements > 16 && !S::kUnaligned;  // of its warp
  return alone ? kWarp : kShortThreads / 2;
}

// Blocks of kShortThreads on a multiprocessor, with as many registers a thread as that leaves: 56
// for up to 32 elements a lane, which simple kernels exceed if left alone (16 bits 0.97 to 0.95 of
// the copy rate, bfloat16's logarithms to 0.89); 48 would spill (0.82). For more elements 64 and
// 80, found by trying one block more and one less (float16's log_softmax of 513 columns, 40
// elements a lane: 0.73 with six blocks, 0.76 with seven, 0.85 with eight). sm_75 holds 1024
// threads, sm_86 and sm_87 16 blocks. Up to 16 elements of float32 do with 40 registers
// (log_softmax at 64 0.95 to 0.98, at 128 0.96 to 1.00, at 256 0.98 to 0.99), begun anywhere up to
// 12 (16 would spill: 200 columns 0.98 to 0.89); more of them in blocks of a warp, of which every
// GPU has room for 16, with as many as they like. Other kernels are left alone, by a 0: a 1 gives
// them up to 128 registers (log_softmax of float32 at 64 0.97 to 0.93). But for masks that are read
// in vectors of 16 bits: with the 70 registers that kernels would have there are too few warps to
// wait for x and for them (bfloat16 under bytes at 128 to 512 columns 0.98 and 0.80 on an H100,
// under float32 numbers 0.80 and 0.74; with 64 registers 0.85 and 0.90). Begun anywhere, eight
// blocks (1001 columns under numbers, log_softmax 0.74 and 0.82).
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870)
inline constexpr int kMostShortBlocks = 8;
#else
inline constexpr int kMostShortBlocks = 9;
#endif
template <class Params, class S>
constexpr int short_blocks() {
  constexpr int kBlocks = kShortThreads / short_threads<Params, S>();
  if (!Params::kSimple) return S::kVector == 8 ? (S::kUnaligned ? 8 : kMostShortBlocks) : 0;
  if (short_threads<Params, S>() == kWarp) return 16;
  if (S::kVector == 4 && S::kElements <= (S::kUnaligned ? 12 : 16) && kMostShortBlocks > 8)
    return kBlocks * 12;
  if (S::kElements <= 32) return kBlocks * kMostShortBlocks;
  if (S::kElements <= 40) return kBlocks * 8;
  return kBlocks * (S::kElements > 48 && S::kUnaligned && S::kHeadTail > 2 ? 5 : 6);
}

// S: how a row lies in G lanes.
template <bool kLog, class Params, class S>
__global__ void __launch_bounds__((short_threads<Params, S>()), (short_blocks<Params, S>()))
    softmax_warp_kernel(const __grid_constant__ Params params) {
  using F = typename Params::F;
  constexpr int V = S::kVector, G = S::kLanes;
  constexpr int kRows = short_threads<Params, S>() / G;  // of a block
  const int first = threadIdx.x / kWarp * (kWarp / G);   // of the warp, whose lanes stay together
  for (std::int64_t base = std::int64_t{blockIdx.x} * kRows + first; base < params.rows.rows;
       base += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t r = base + threadIdx.x % kWarp / G;
    const int left = r < params.rows.rows ? static_cast<int>(params.rows.length) : 0;
    // Lanes beyond the last row have a part of it that is empty.
    const std::int64_t inside = Params::kSimple ? r : min(r, params.rows.rows - 1);
    const auto starts = row_starts(params.rows.outer, inside);
    const auto* const from = params.x + starts.of[kX];
    const S fragment(from, left, threadIdx.x % G);
    F x[S::kElements];
    LaneRange<F> range =
        load_fragment(params, fragment, inside, from, V == 1 ? params.rows.step[kX] : 1, 0, x);
    F max = greatest_of_lanes<G>(range.max);
    if (kMeetsOutOfRange<Params> && kind_of_row(max) == RowKind::out_of_range) {
      range = moved<S>(range, max, x);
      max = F(0);
    }
    const F sum = weigh<kLog, S, typename Params::In>(x, max, range.min);
    const auto row = finish_row<kLog, typename Params::In>(SoftmaxPart<F>{max, sum});
    store_fragment<kLog>(params, fragment, starts.of[kOut], params.rows.step[kOut], x, row.max,
                         row.last);
    // No grid has fewer lanes than rows need. The loop is for the compiler: without it simple
    // kernels spill (bfloat16's softmax of 1001 columns 1.01 to 0.99 of the copy rate on an H100),
    // and with it those of scales and masks (512 keys 0.99 to 0.94).
    if constexpr (!Params::kSimple) return;
  }
}

}  // namespace twinops
