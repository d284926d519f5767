// The kernels of softmax and log_softmax. All take a row in the same order (docs/softmax.md):
//   short rows   up to a chunk: 2^k lanes a row, several rows a warp (rows/warp_scope.cuh)
//   staged rows  up to half a chunk, that begin anywhere, side by side (softmax/staged_kernel.cuh)
//   two chunks   simple rows of 16 bits, a warp a row (softmax/two_chunk_kernel.cuh)
//   rows         a chunk a warp, everything in the registers of a block or of a cluster of blocks;
//                what is left after whole chunks may go along with the last (rows/remainder.cuh)
//   pairs        two chunks a warp of a block, a cluster or a team (softmax/pair_kernel.cuh)
//   dealt rows   a chunk a warp, of 16 bits, round all blocks (softmax/grid_kernel.cuh)
//   long rows    a cluster of blocks a row (softmax/two_pass_kernel.cuh)
// For 16-bit types instructions are near the limit: a warp's chunk takes 690 of them (760 where it
// is unaligned), and 1000 would be all that a multiprocessor issues while the chunk travels. So
// pointers are made once a chunk, what rows have in common once a row, and vectors lie at offsets
// that instructions hold. Tried and left: joining chunks through a maximum of the whole row first,
// which costs a second barrier; a warp for 64 columns, which leaves most lanes idle; blocks that
// stay, with or without the next row on its way, where one block holds a row (0.86 and 0.92 of the
// copy rate in place of 0.97), and until 2026-11-26 where a cluster did (softmax/pair_kernel.cuh);
// one warp that joins a block's parts for all, where one block holds a row (0.80 in place of 0.83
// at 16384); a barrier of the cluster in place of sent parts (0.45 in place of 0.67 at 65536); the
// next row's weights before this row's parts are there (no gain from 32768 to 524288); warps that
// each go their own way, a chunk's weights in shared memory while its row is joined elsewhere, by
// letters from block to block (0.80 to 0.73 at 65536) or through global memory (0.46); warps
// without a chunk that skip more of the work than the weights (no gain; log_softmax 0.78 to 0.67 at
// 65536); 48 or 56 registers, for more warps (0.64 to 0.50 and 0.59 at 50257); a way of its own to
// store a unaligned chunk that is full (0.86 to 0.74 in float32 at 50257, by the instructions'
// cache); a row that is out of reach taken again apart from the loop (bfloat16's logarithm 0.90 to
// 0.87 at 16384, spills in float32); short rows in blocks of 256 threads (no gain); loads that say
// they are read once (ld.cs, L1::no_allocate, a policy of L2::evict_first; 0.01 to 0.04 lost at
// every length of float32 but teams'), that fetch 128 or 256 bytes (no gain), stores that say so
// (st.cs, st.wt; no gain).
#pragma once

#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/softmax/softmax_remainder.cuh"

namespace twinops {

// What a warp does whose block is alone with its row. S: how its chunk lies in lanes; kWhole: all
// of it is the row's, and the compiler knows; Tail: of what is taken along.
template <bool kLog, class S, Remainder kRemainder, bool kWhole, class RemainderFragment,
          class Params>
__device__ __forceinline__ void take_row(const Params& params, int chunk,
                                         SoftmaxPart<typename Params::F>* parts) {
  using F = typename Params::F;
  using In = typename Params::In;
  constexpr int V = S::kVector;
  constexpr bool kAppended = kRemainder == Remainder::appended;
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp, begin = chunk * kFoldChunk;
  const int rest = static_cast<int>(params.rows.length) - begin, left = kWhole ? kFoldChunk : rest;
  const std::int64_t step_in = V == 1 ? params.rows.step[kX] : 1;
  const std::int64_t step_out = V == 1 ? params.rows.step[kOut] : 1;
  RemainderIf<kAppended, SoftmaxRemainder<In, RemainderFragment>> remainder(rest - kFoldChunk, lane,
                                                                            chunk == warps - 1);
  F x[S::kElements], max;
  const auto at = [&] {  // the row's chunk, of out and of x: found anew, which takes no registers
    auto starts = row_starts(params.rows.outer, reload_block());
    starts.of[kOut] += begin * step_out;
    starts.of[kX] += begin * step_in;
    return starts;
  };
  const auto fragment_of = [&](const In* from) { return S(from, left, lane); };
  bool again = false;
  const auto load = [&](F(&x)[S::kElements]) {
    const In* const from = params.x + at().of[kX];
    if (kMeetsOutOfRange<Params> && again) sync_row<kRemainder>();  // before other parts come
    again = true;
    if constexpr (Params::kSimple) {
      remainder.load(from + kFoldChunk);
      const S fragment = fragment_of(from);
      Vector<In, S::kVector> vectors[S::kElements / S::kVector];
      fragment.load(from, 1, kPad<In>, vectors);
      constexpr bool kAfter = !kLog || !kMeetsOutOfRange<Params>;
      return widen_fragment<S, kAfter>(vectors, kAfter || fragment.full(), x);
    } else {
      return load_fragment(params, fragment_of(from), blockIdx.x, from, step_in, begin, x);
    }
  };
  const auto join = [&](SoftmaxPart<F> part, F shift) {
    if (lane == 0) parts[chunk] = part;
    remainder.template publish<kLog>(shift, parts + warps);
    sync_row<kRemainder>();
    return finish_row<kLog, In>(join_parts(parts, warps + kAppended));
  };
  const SoftmaxRow<F> row = settle<kLog, S, Params>(x, max, false, load, join);
  const auto starts = at();
  store_fragment<kLog>(params, fragment_of(params.x + starts.of[kX]), starts.of[kOut], step_out, x,
                       row.max, last_of_chunk<kLog>(row, max));
  remainder.template store<kLog>(params, starts.of[kOut] + kFoldChunk, row);
}

// What the compiler is told of a kernel's blocks, of a last chunk that is not as the others are:
// the most warps that they have and how many of them a multiprocessor is to hold, by which a thread
// has 64 registers along, and apart 48, or 56 where those spill. Apart, of softmax and log_softmax
// on an H200 with as many as it takes and so: bfloat16 at 2113 columns 0.86 and 0.94 of the copy
// rate, 0.88 and 0.90, at 4161 0.91 and 0.98, 0.92 and 0.94, at 7233 0.93 and 0.98, 0.90 and 0.95,
// in whole vectors at 2304 0.94 and 1.01, 0.90 and 0.97, at 7208 0.96 and 1.01, 0.93 and 0.97; with
// 48 and 56 log_softmax of bfloat16 at 2305 0.85 and 0.88. Along, with no more than 8 warps in
// place of 32 and as many registers, log_softmax of float16 at 2049 0.89 and 0.92; with 56 bfloat16
// 0.94 and 0.92.
template <bool kLog, class Params, Remainder kRemainder, class LastFragment>
struct RowBlocks {
  static constexpr bool kSpills =
      kLog && kHasOutOfRange<typename Params::In> && LastFragment::kElements > 8;
  static constexpr int kOwnWarpWarps = kSpills ? 12 : 13;
  static constexpr int kMostWarps = kRemainder == Remainder::own_warp   ? kOwnWarpWarps
                                    : kRemainder == Remainder::appended ? 8
                                                                        : Params::kMostWarps;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  static constexpr int kOwnWarpAtOnce = 3;
#else
  static constexpr int kOwnWarpAtOnce = 2;  // a multiprocessor holds 32 warps
#endif
  static constexpr int kAtOnce = kRemainder == Remainder::own_warp   ? kOwnWarpAtOnce
                                 : kRemainder == Remainder::appended ? 4
                                                                     : 0;
};

// A chunk a warp, the row in the registers of a block. Many small blocks hide what each waits for.
// S: a ChunkFragment. Last: how the last chunk of a simple row lies, where that is taken otherwise.
template <bool kLog, class Params, class S, Remainder kRemainder = Remainder::vectors,
          class LastFragment = S>
__global__ void __launch_bounds__(
    RowBlocks<kLog, Params, kRemainder, LastFragment>::kMostWarps* kWarp,
    RowBlocks<kLog, Params, kRemainder, LastFragment>::kAtOnce)
    softmax_block_kernel(const __grid_constant__ Params params) {
  constexpr bool kAppended = kRemainder == Remainder::appended;
  static_assert(Params::kSimple || kRemainder == Remainder::vectors);
  __shared__ SoftmaxPart<typename Params::F> parts[Params::kMostWarps + kAppended];
  if constexpr (kRemainder != Remainder::own_warp) {
    take_row<kLog, S, kRemainder, false, LastFragment>(params, threadIdx.x / kWarp, parts);
  } else {
    const int chunk = warp_of_all_lanes();
    if (is_last_warp(chunk))
      take_row<kLog, LastFragment, kRemainder, false, LastFragment>(params, chunk, parts);
    else
      take_row<kLog, S, kRemainder, true, LastFragment>(params, chunk, parts);
  }
}

// The same with the blocks of a cluster.
template <bool kLog, class Params, class S>
__global__ void __launch_bounds__(Params::kMostWarps* kWarp)
    softmax_cluster_kernel(const __grid_constant__ Params params, const ChunkPlan plan) {
  using F = typename Params::F;
  using Parts = ClusterScope<SoftmaxPart<F>, SoftmaxRow<F>>;
  constexpr int V = S::kVector;
  TWINOPS_DYNAMIC_SHARED(smem);
  Parts parts(smem, plan);
  const int chunk = Parts::block_of_row() * plan.warps + warp_of_all_lanes();
  const int r = Parts::first_row(), begin = chunk * kFoldChunk;
  const int left = static_cast<int>(params.rows.length) - begin;
  const std::int64_t step_in = V == 1 ? params.rows.step[kX] : 1;
  const std::int64_t step_out = V == 1 ? params.rows.step[kOut] : 1;
  const auto starts = row_starts(params.rows.outer, r);
  const auto* const from = params.x + starts.of[kX] + begin * step_in;
  const auto fragment_of_row = [&] {
    return S(from, left, S::kUnaligned ? reload_lane() : threadIdx.x % kWarp);
  };
  F x[S::kElements], max;
  int turn = 0;
  const auto load = [&](F(&x)[S::kElements]) {
    return load_fragment(params, fragment_of_row(), r, from, step_in, begin, x);
  };
  const auto join = [&](SoftmaxPart<F> part, F) {
    if (turn == 0) parts.begin();
    parts.publish(turn, chunk, part);
    return parts.combine(turn++, join_pairs<F>, finish_row<kLog, typename Params::In, F>);
  };
  const SoftmaxRow<F> row =
      settle<kLog, S, Params>(x, max, sizeof(typename Params::In) == 2 && left <= 0, load, join);
  store_fragment<kLog>(params, fragment_of_row(), starts.of[kOut] + begin * step_out, step_out, x,
                       row.max, last_of_chunk<kLog>(row, max));
  parts.leave();
}

}  // namespace twinops
