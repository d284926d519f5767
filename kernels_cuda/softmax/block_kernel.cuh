// The kernels of softmax and log_softmax of rows in the registers of a block or of a cluster of
// blocks, a chunk a warp. x is read once, out is written once. The chunks' parts, a maximum and a
// sum each, are combined in the order of docs/softmax.md.
//
// For 16-bit types instructions are near the limit, so pointers are made once a chunk, what rows
// have in common once a row, and vectors lie at offsets that instructions hold. What was measured
// and what was tried: docs/lab/softmax-block-kernel.md.
//
// The other kernels of contiguous rows, which take the same sums:
//   warp_kernel.cuh       up to a chunk, several rows a warp
//   staged_kernel.cuh     short unaligned rows, by way of shared memory
//   two_chunk_kernel.cuh  two chunks by one warp
//   pair_kernel.cuh       two chunks a warp of a block or a cluster
//   grid_kernel.cuh       long rows of 16 bits, over all multiprocessors
//   two_pass_kernel.cuh   any length: read twice in part
// dispatch.cuh chooses.
#pragma once

#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// What a warp does whose block is alone with its row. S: how its chunk lies in lanes; kWhole: all
// of it is the row's, and the compiler knows.
template <bool kLog, class S, bool kTwoBodies, bool kWhole, class Params>
__device__ __forceinline__ void take_row(const Params& params, int chunk,
                                         SoftmaxPart<typename Params::F>* parts) {
  using F = typename Params::F;
  using In = typename Params::In;
  constexpr int V = S::kVector;
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp, begin = chunk * kFoldChunk;
  const int rest = static_cast<int>(params.rows.length) - begin, left = kWhole ? kFoldChunk : rest;
  const std::int64_t step_in = V == 1 ? params.rows.step[kX] : 1;
  const std::int64_t step_out = V == 1 ? params.rows.step[kOut] : 1;
  F x[S::kElements], max;
  const auto at = [&] {  // the chunk in out and in x; computed again, to save registers
    auto starts = row_starts(params.rows.outer, reload_block());
    starts.of[kOut] += begin * step_out;
    starts.of[kX] += begin * step_in;
    return starts;
  };
  const auto fragment_of = [&](const In* from) { return S(from, left, lane); };
  bool again = false;
  const auto load = [&](F(&x)[S::kElements]) {
    const In* const from = params.x + at().of[kX];
    if (kMeetsOutOfRange<Params> && again) sync_row<kTwoBodies>();  // before other parts come
    again = true;
    if constexpr (Params::kSimple) {
      const S fragment = fragment_of(from);
      Vector<In, S::kVector> vectors[S::kElements / S::kVector];
      fragment.load(from, 1, kPad<In>, vectors);
      constexpr bool kAfter = !kLog || !kMeetsOutOfRange<Params>;
      return widen_fragment<S, kAfter>(vectors, kAfter || fragment.full(), x);
    } else {
      return load_fragment(params, fragment_of(from), blockIdx.x, from, step_in, begin, x);
    }
  };
  const auto join = [&](SoftmaxPart<F> part, F) {
    if (lane == 0) parts[chunk] = part;
    sync_row<kTwoBodies>();
    return finish_row<kLog, Params>(join_parts(parts, warps));
  };
  const SoftmaxRow<F> row = settle<kLog, S, Params>(x, max, false, load, join);
  const auto starts = at();
  store_fragment<kLog>(params, fragment_of(params.x + starts.of[kX]), starts.of[kOut], step_out, x,
                       row.max, last_of_chunk<kLog, Params>(x, row, max));
}

// What the compiler is told of a kernel's blocks where the remainder has a warp of its own: the
// most warps that a block has, and how many blocks a multiprocessor is to hold. So a thread has 48
// registers, or 56 where those spill (docs/lab/softmax-block-kernel.md#remainders).
template <bool kLog, class Params, class LastFragment>
struct RowBlocks {
  static constexpr bool kOwnWarp = !std::is_void_v<LastFragment>;
  static constexpr bool kSpills = kLog && kHasOutOfRange<typename Params::In>;
  static constexpr int kOwnWarpWarps = kSpills ? 12 : 13;
  static constexpr int kMostWarps = kOwnWarp ? kOwnWarpWarps : Params::kMostWarps;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  static constexpr int kOwnWarpAtOnce = 3;
#else
  static constexpr int kOwnWarpAtOnce = 2;  // a multiprocessor holds 32 warps
#endif
  static constexpr int kAtOnce = kOwnWarp ? kOwnWarpAtOnce : 0;
};

// A chunk a warp, the row in the registers of one block. Many small blocks hide what each of them
// waits for. S: a ChunkFragment. LastFragment: how the remainder of a simple row lies, where it has
// a warp of its own, else void.
template <bool kLog, class Params, class S, class LastFragment = void>
__global__ void __launch_bounds__(RowBlocks<kLog, Params, LastFragment>::kMostWarps* kWarp,
                                  RowBlocks<kLog, Params, LastFragment>::kAtOnce)
    softmax_block_kernel(const __grid_constant__ Params params) {
  constexpr bool kOwnWarp = !std::is_void_v<LastFragment>;
  static_assert(Params::kSimple || !kOwnWarp);
  __shared__ SoftmaxPart<typename Params::F> parts[Params::kMostWarps];
  if constexpr (!kOwnWarp) {
    take_row<kLog, S, false, false>(params, threadIdx.x / kWarp, parts);
  } else {
    const int chunk = warp_of_all_lanes();
    if (is_last_warp(chunk))
      take_row<kLog, LastFragment, true, false>(params, chunk, parts);
    else
      take_row<kLog, S, true, true>(params, chunk, parts);
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
    return parts.combine(turn++, join_pairs<F>, finish_row<kLog, Params, F>);
  };
  const SoftmaxRow<F> row =
      settle<kLog, S, Params>(x, max, sizeof(typename Params::In) == 2 && left <= 0, load, join);
  store_fragment<kLog>(params, fragment_of_row(), starts.of[kOut] + begin * step_out, step_out, x,
                       row.max, last_of_chunk<kLog, Params>(x, row, max));
  parts.leave();
}

}  // namespace twinops
