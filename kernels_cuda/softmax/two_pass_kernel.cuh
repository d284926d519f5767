// The kernel of softmax and log_softmax of rows of any length: a cluster of blocks a row. Weights
// are stashed in shared memory, as many as fit; the rest of the row is read twice, the second time
// mostly from L2. A warp adds up units of 2^k chunks as a tree of neighbours, and the units' parts
// are combined in every block.
#pragma once

#include "kernels_cuda/rows/two_pass.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

template <class F>
struct TwoPassSmem {  // followed by the stashed chunks' weights, 1024 each
  SoftmaxPart<F> parts[kTwoPassUnits];
  SoftmaxPart<F> trees[kTwoPassWarps][WarpTree<SoftmaxPart<F>>::kLevels];
  SoftmaxPart<F> groups[kTwoPassUnits / kWarp];
  F max[kTwoPassWarps * kMaxStashed];
};

template <bool kLog, class Params, class S>
__global__ void __launch_bounds__(kTwoPassWarps* kWarp)
    softmax_two_pass_kernel(const __grid_constant__ Params params, const TwoPassPlan plan) {
  using F = typename Params::F;
  constexpr int kElements = S::kElements;
  TWINOPS_DYNAMIC_SHARED(smem);
  TwoPassSmem<F>& shared = *reinterpret_cast<TwoPassSmem<F>*>(smem);
  F* const weights = reinterpret_cast<F*>(smem + sizeof(TwoPassSmem<F>));
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int rank = static_cast<int>(blockIdx.x % plan.blocks);
  const int first_unit = warp * plan.blocks + rank, unit_step = warps * plan.blocks;
  const std::int64_t length = params.rows.length;
  const std::int64_t row_step = gridDim.x / plan.blocks;
  F* const mine = weights + static_cast<std::int64_t>(warp) * plan.stashed * kFoldChunk + lane;
  F* const my_max = shared.max + warp * plan.stashed;

  cluster_barrier(plan.blocks);  // no block's memory is written before the block runs
  for (std::int64_t r = blockIdx.x / plan.blocks; r < params.rows.rows; r += row_step) {
    const auto starts = row_starts(params.rows.outer, r);
    const auto* const from = params.x + starts.of[kX];
    const std::int64_t step = params.rows.step[kX];
    F x[kElements], shift = F(0);
    SoftmaxRow<F> row;
    const auto fragment_of = [&](std::int64_t c) {
      return S(from + c * kFoldChunk * step,
               static_cast<int>(min(length - c * kFoldChunk, std::int64_t{kFoldChunk})), lane);
    };
    const auto load_chunk = [&](std::int64_t c) {
      return moved<S>(load_fragment(params, fragment_of(c), r, from + c * kFoldChunk * step, step,
                                    c * kFoldChunk, x),
                      shift, x);
    };
    // x becomes the chunk's weights; in log_softmax (kLog) it stays.
    const auto part_of_chunk = [&](std::int64_t c) {
      const LaneRange<F> range = load_chunk(c);
      const F max = greatest_of_lanes<kWarp>(range.max);
      return SoftmaxPart<F>{max, weigh<kLog, S, typename Params::In>(x, max, range.min)};
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      const SoftmaxPart<F> part = part_of_chunk(c);
      if (seen < plan.stashed) {
#pragma unroll
        for (int i = 0; i < kElements; ++i) mine[(seen * kElements + i) * kWarp] = x[i];
        if (lane == 0) my_max[seen] = part.max;
      }
      return part;
    };

    while (true) {
      int seen = 0;
      for (int u = first_unit; u < plan.units; u += unit_step) {
        if (plan.unit == 1) {
          publish_part(shared.parts + u, reduce_chunk(u, seen++), plan.blocks);
          continue;
        }
        WarpTree<SoftmaxPart<F>> tree(shared.trees[warp]);
        const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
        for (std::int64_t c = u * plan.unit; c < end; ++c) tree.add(reduce_chunk(c, seen++));
        publish_part(shared.parts + u, tree.total(), plan.blocks);
      }
      cluster_barrier(plan.blocks);
      row = finish_row<kLog, Params>(
          join_by_block(shared.parts, plan.units, shared.groups, join_parts<F>));
      if (kind_of_row(row.max) != RowKind::out_of_range) break;
      shift = row.max;
      cluster_barrier(plan.blocks);
    }

    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        F max = F(0);
        if (seen < plan.stashed) {
#pragma unroll
          for (int i = 0; i < kElements; ++i) x[i] = mine[(seen * kElements + i) * kWarp];
          max = my_max[seen];
        } else if constexpr (kLog) {
          load_chunk(c);
        } else {
          max = part_of_chunk(c).max;
        }
        store_fragment<kLog>(
            params, fragment_of(c), starts.of[kOut] + c * kFoldChunk * params.rows.step[kOut],
            params.rows.step[kOut], x, row.max, last_of_chunk<kLog, Params>(x, row, max));
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's parts arrive
  }
}

}  // namespace twinops
