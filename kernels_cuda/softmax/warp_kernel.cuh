// The kernel of softmax and log_softmax of rows of up to a chunk: 2^k lanes a row, several rows a
// warp. x is read once and stays in registers, out is written once; the sum is a fold over
// registers, then lanes. What was measured: docs/lab/softmax-warp-kernel.md.
#pragma once

#include "kernels_cuda/rows/lane_shapes.hpp"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// Threads of a block. Where rows have no scale and mask and a lane has two vectors or more, so many
// that a block takes about 4 KB (docs/lab/softmax-warp-kernel.md#threads-of-a-block).
template <class Params, class S>
constexpr int short_threads() {
  if (!Params::kSimple || S::kElements < 2 * S::kVector) return kShortThreads;
  const bool alone = S::kVector == 4 && S::kElements > 16 && !S::kUnaligned;  // one warp a block
  return alone ? kWarp : kShortThreads / 2;
}

// Blocks on a multiprocessor, counted in blocks of kShortThreads, by which the compiler decides how
// many registers a thread has: 56 with nine blocks. 0 leaves it alone. Each number was found by
// trying one block more and one less (docs/lab/softmax-warp-kernel.md#blocks-of-a-multiprocessor).
// sm_75 holds 1024 threads, sm_86 and sm_87 hold 16 blocks.
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

// S: the fragment of a row on G lanes.
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
    // Lanes beyond the last row have an empty fragment of it.
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
    const auto row = finish_row<kLog, Params>(SoftmaxPart<F>{max, sum});
    store_fragment<kLog>(params, fragment, starts.of[kOut], params.rows.step[kOut], x, row.max,
                         row.last);
    // A grid has as many lanes as rows need; the loop is for the compiler. Without it these kernels
    // spill, and with it those of scales and masks do
    // (docs/lab/softmax-warp-kernel.md#rows-without-scale-and-mask).
    if constexpr (!Params::kSimple) return;
  }
}

}  // namespace twinops
