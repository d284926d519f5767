// The kernel of softmax and log_softmax with two chunks a warp. The first one waits in shared
// memory, where it was copied to and where its weights wait; of 16-bit types the second one is
// copied there as well. x is read once, out is written once, and the parts are combined as in
// block_kernel.cuh.
//
// A block or a cluster has one row. Work begins when the first chunk is there. What was measured
// and tried: docs/lab/softmax-block-kernel.md#two-chunks-a-warp.
#pragma once

#include "kernels_cuda/rows/async_copy.cuh"
#include "kernels_cuda/rows/block_scope.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "kernels_cuda/rows/remainder.cuh"
#include "kernels_cuda/rows/smem_stash.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// A block's shared memory after the parts.
template <class Params, class S>
struct PairSmemLayout {
  using In = typename Params::In;
  using Stash = SmemStash<In, S>;
  using Async = AsyncChunk<In, S>;
  static constexpr bool kFetchSecond = sizeof(In) == 2;

  static constexpr std::size_t bytes(std::size_t warps) {
    return Stash::bytes(warps) + (kFetchSecond ? Async::bytes(warps) : 0);
  }
};

// The scopes that may have a row: a block or a cluster.
template <class F>
using BlockOfRow = BlockScope<SoftmaxPart<F>, SoftmaxRow<F>>;
template <class F>
using ClusterOfRow = ClusterScope<SoftmaxPart<F>, SoftmaxRow<F>>;

template <bool kLog, class Params, class S, template <class> class OfRow>
__global__ void __launch_bounds__(Params::kMostWarps* kWarp)
    softmax_pair_kernel(const __grid_constant__ Params params,
                        const __grid_constant__ ChunkPlan plan) {
  using F = typename Params::F;
  using In = typename Params::In;
  using SmemLayout = PairSmemLayout<Params, S>;
  using Stash = typename SmemLayout::Stash;
  using Async = typename SmemLayout::Async;
  TWINOPS_DYNAMIC_SHARED(smem);
  OfRow<F> parts(smem, plan);
  unsigned char* const chunk_smem = smem + parts.bytes(plan.chunks);
  const Stash stash(chunk_smem);
  const int first = parts.block_of_row() * 2 * plan.warps + warp_of_all_lanes();
  const int length = static_cast<int>(params.rows.length);
  const auto chunk_of = [&](int half) { return first + half * plan.warps; };
  const auto from = [&](const auto& row, int chunk) {
    return params.x + row.of[kX] + chunk * kFoldChunk;
  };
  const auto fragment_of = [&](const In* from, int chunk) {
    const int lane = S::kUnaligned ? reload_lane() : threadIdx.x % kWarp;
    return S(from, length - chunk * kFoldChunk, lane);
  };
  const auto async_of = [&](int half) {
    return half == 0 ? Async(chunk_smem, Stash::kOfWarp)
                     : Async(chunk_smem + Stash::bytes(plan.warps));
  };
  const auto fetch = [&](const auto& row, int half) {
    const int chunk = chunk_of(half);
    const In* const at = from(row, chunk);
    async_of(half).fetch(fragment_of(at, chunk), at, params.x_end, length - chunk * kFoldChunk);
  };

  const auto starts = row_starts(params.rows.outer, parts.first_row());
  fetch(starts, 0);
  if constexpr (SmemLayout::kFetchSecond) {
    __pipeline_commit();
    fetch(starts, 1);
    __pipeline_commit();
  }
  parts.begin();
  int turn = 0;
  F x[S::kElements], first_max = F(0), max = F(0), shift = F(0);
  SoftmaxRow<F> row;
  while (true) {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      if (half != 0) {
        stash.put(x);
        first_max = max;
      }
      const int chunk = chunk_of(half);
      const In* const at = from(starts, chunk);
      const S fragment = fragment_of(at, chunk);
      Vector<In, S::kVector> vectors[S::kElements / S::kVector];
      if ((!kMeetsOutOfRange<Params> || shift == F(0)) && (half == 0 || SmemLayout::kFetchSecond)) {
        constexpr bool kByLanes = sizeof(In) == 2;
        const bool but_last = SmemLayout::kFetchSecond && turn == 0 && half == 0;
        async_of(half).template take<kByLanes>(fragment, kPad<In>, vectors, but_last);
      } else {
        fragment.load(at, 1, kPad<In>, vectors);
      }
      if constexpr (S::kUnaligned) __syncwarp();  // else the compiler writes what follows twice
      LaneRange<F> range = widen_fragment<S, true>(vectors, true, x);
      if constexpr (kMeetsOutOfRange<Params>) range = moved<S>(range, shift, x);
      max = greatest_of_lanes<kWarp>(range.max);
      const F sum = weigh<kLog, S, In>(x, max, range.min, sizeof(In) == 2 && fragment.left() == 0);
      parts.publish(turn, chunk, {max, sum});
    }
    row = parts.combine(turn++, join_pairs<F>, finish_row<kLog, Params, F>);
    if (!kMeetsOutOfRange<Params> || kind_of_row(row.max) != RowKind::out_of_range) break;
    shift = row.max;
  }
#pragma unroll 1
  for (int half = 1; half >= 0; --half) {
    const int chunk = chunk_of(half);
    if (half == 0) {
      stash.get(x);
      max = first_max;
    }
    store_fragment<kLog>(params, fragment_of(from(starts, chunk), chunk),
                         starts.of[kOut] + chunk * kFoldChunk, 1, x, row.max,
                         last_of_chunk<kLog, Params>(x, row, max), stash.scratch());
  }
  parts.leave();
}

}  // namespace twinops
