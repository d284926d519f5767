// The kernel of softmax and log_softmax for long rows: a cluster of blocks a row. Weights wait in
// shared memory, as many as fit; the rest of the row is read twice, the second time mostly from L2.
#pragma once

#include "kernels_cuda/rows/two_pass.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

template <class F>
struct LongShared {  // then: weights of the chunks that wait, 1024 each
  SoftmaxPart<F> parts[kLongUnits];
  SoftmaxPart<F> trees[kLongWarps][WarpTree<SoftmaxPart<F>>::kLevels];
  SoftmaxPart<F> groups[kLongUnits / kWarp];
  F max[kLongWarps * kMostWaiting];
};

template <bool kLog, class Job, class S>
__global__ void __launch_bounds__(kLongWarps* kWarp)
    softmax_long_kernel(const __grid_constant__ Job job, const LongRows plan) {
  using F = typename Job::F;
  constexpr int kShare = S::kElements;
  TWINOPS_DYNAMIC_SHARED(memory);
  LongShared<F>& shared = *reinterpret_cast<LongShared<F>*>(memory);
  F* const weights = reinterpret_cast<F*>(memory + sizeof(LongShared<F>));
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int rank = static_cast<int>(blockIdx.x % plan.blocks);
  const int first_unit = warp * plan.blocks + rank, unit_step = warps * plan.blocks;
  const std::int64_t length = job.rows.length;
  const std::int64_t row_step = gridDim.x / plan.blocks;
  F* const mine = weights + static_cast<std::int64_t>(warp) * plan.waiting * kFoldChunk + lane;
  F* const my_max = shared.max + warp * plan.waiting;

  cluster_barrier(plan.blocks);  // nobody's memory is written before he is there
  for (std::int64_t r = blockIdx.x / plan.blocks; r < job.rows.rows; r += row_step) {
    const auto starts = row_starts(job.rows.outer, r);
    const auto* const from = job.x + starts.of[1];
    const std::int64_t step = job.rows.step[1];
    F x[kShare], shift = F(0);
    SoftmaxRow<F> row;
    const auto share_of = [&](std::int64_t c) {
      return S(from + c * kFoldChunk * step,
               static_cast<int>(min(length - c * kFoldChunk, std::int64_t{kFoldChunk})), lane);
    };
    const auto load_chunk = [&](std::int64_t c) {
      return moved<S>(
          load_share(job, share_of(c), r, from + c * kFoldChunk * step, step, c * kFoldChunk, x),
          shift, x);
    };
    // x becomes the chunk's weights, or (kLog) stays.
    const auto part_of_chunk = [&](std::int64_t c) {
      const LaneRange<F> range = load_chunk(c);
      const F max = greatest_of_lanes<kWarp>(range.max);
      return SoftmaxPart<F>{max, weigh<kLog, S, typename Job::In>(x, max, range.min)};
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      const SoftmaxPart<F> part = part_of_chunk(c);
      if (seen < plan.waiting) {
#pragma unroll
        for (int i = 0; i < kShare; ++i) mine[(seen * kShare + i) * kWarp] = x[i];
        if (lane == 0) my_max[seen] = part.max;
      }
      return part;
    };

    while (true) {
      int seen = 0;
      for (int u = first_unit; u < plan.units; u += unit_step) {
        if (plan.unit == 1) {
          share_part(shared.parts + u, reduce_chunk(u, seen++), plan.blocks);
          continue;
        }
        WarpTree<SoftmaxPart<F>> tree(shared.trees[warp]);
        const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
        for (std::int64_t c = u * plan.unit; c < end; ++c) tree.add(reduce_chunk(c, seen++));
        share_part(shared.parts + u, tree.total(), plan.blocks);
      }
      cluster_barrier(plan.blocks);
      row = finish_row<kLog, typename Job::In>(
          join_by_block(shared.parts, plan.units, shared.groups, join_parts<F>));
      if (kind_of_row(row.max) != RowKind::far) break;
      shift = row.max;
      cluster_barrier(plan.blocks);
    }

    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        F max = F(0);
        if (seen < plan.waiting) {
#pragma unroll
          for (int i = 0; i < kShare; ++i) x[i] = mine[(seen * kShare + i) * kWarp];
          max = my_max[seen];
        } else if constexpr (kLog) {
          load_chunk(c);
        } else {
          max = part_of_chunk(c).max;
        }
        store_share<kLog>(job, share_of(c), starts.of[0] + c * kFoldChunk * job.rows.step[0],
                          job.rows.step[0], x, row.max, last_of_chunk<kLog>(row, max));
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's parts come
  }
}

}  // namespace twinops
