// The kernel of softmax_grad and log_softmax_grad of rows of any length: a cluster of blocks a row.
// y and dy are stashed in shared memory as far as they fit; the rest of the row is read twice, the
// second time mostly from L2. A warp adds up units of 2^k chunks as a tree of neighbours, and the
// units' sums are combined in every block.
#pragma once

#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/two_pass.cuh"
#include "kernels_cuda/softmax/softmax_grad_op.cuh"

namespace twinops {

template <class F>
struct alignas(16) TwoPassGradSmem {  // followed by the stashed chunks of y and dy
  F of_units[kTwoPassUnits];
  F groups[kTwoPassUnits / kWarp];
  F trees[kTwoPassWarps][WarpTree<F>::kLevels];
};

template <bool kLog, class In, class S, class Params>
__device__ __forceinline__ void grad_two_pass_rows(const Params& params, const TwoPassPlan& plan,
                                                   unsigned char* smem) {
  using F = compute_t<In>;
  constexpr int V = S::kVector, R = S::kElements / V;
  constexpr bool kMasked = kTakesAnyRows<Params>;
  auto& shared = *reinterpret_cast<TwoPassGradSmem<F>*>(smem);
  F* const sums = shared.of_units;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int rank = static_cast<int>(blockIdx.x % plan.blocks);
  const int first_unit = warp * plan.blocks + rank, unit_step = warps * plan.blocks;
  const std::int64_t length = params.rows.length, row_step = gridDim.x / plan.blocks;
  const std::int64_t* const step = params.rows.step;
  auto* const mine = reinterpret_cast<Vector<In, V>*>(smem + sizeof(TwoPassGradSmem<F>)) +
                     static_cast<std::int64_t>(warp) * plan.stashed * 2 * R * kWarp + lane;

  cluster_barrier(plan.blocks);  // no block's memory is written before the block runs
  for (std::int64_t r = blockIdx.x / plan.blocks; r < params.rows.rows; r += row_step) {
    const auto starts = row_starts(params.rows.outer, r);
    GradFragment<In, S, kMasked> of_lane;
    const auto at = [&](int k, std::int64_t c) { return starts.of[k] + c * kFoldChunk * step[k]; };
    const auto fragment_of = [&](std::int64_t c) {
      return S(params.y + at(kY, c),
               static_cast<int>(min(length - c * kFoldChunk, std::int64_t{kFoldChunk})), lane);
    };
    const auto load_chunk = [&](std::int64_t c) {
      of_lane.load_chunk(params, fragment_of(c), starts, c * kFoldChunk);
    };
    const auto reduce_chunk = [&](std::int64_t c, int seen) {
      load_chunk(c);
      if (seen < plan.stashed) {
#pragma unroll
        for (int i = 0; i < R; ++i) {
          mine[((seen * R + i) * 2 + 0) * kWarp] = of_lane.y[i];
          mine[((seen * R + i) * 2 + 1) * kWarp] = of_lane.dy[i];
        }
      }
      return of_lane.template sum<kLog>();
    };
    int seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      if (plan.unit == 1) {
        publish_part(sums + u, reduce_chunk(u, seen++), plan.blocks);
        continue;
      }
      WarpTree<F> tree(shared.trees[warp]);
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c) tree.add(reduce_chunk(c, seen++));
      publish_part(sums + u, tree.total(), plan.blocks);
    }
    cluster_barrier(plan.blocks);
    const F sum = join_by_block(sums, plan.units, shared.groups, join_sums<1, F>);
    seen = 0;
    for (int u = first_unit; u < plan.units; u += unit_step) {
      const std::int64_t end = min((u + 1) * plan.unit, plan.chunks);
      for (std::int64_t c = u * plan.unit; c < end; ++c, ++seen) {
        if (seen < plan.stashed) {
#pragma unroll
          for (int i = 0; i < R; ++i) {
            of_lane.y[i] = mine[((seen * R + i) * 2 + 0) * kWarp];
            of_lane.dy[i] = mine[((seen * R + i) * 2 + 1) * kWarp];
          }
          if constexpr (kMasked) of_lane.read_mask(params, fragment_of(c), starts, c * kFoldChunk);
        } else {
          load_chunk(c);
        }
        of_lane.template store<kLog>(fragment_of(c), params.dx + at(kDx, c), step[kDx], sum,
                                     params.scale);
      }
    }
    cluster_barrier(plan.blocks);  // before the next row's sums arrive
  }
}

template <bool kLog, class In, class Out, class S>
__global__ void __launch_bounds__(kTwoPassWarps* kWarp)
    grad_two_pass_kernel(const __grid_constant__ GradParamsOf<In, Out, S> params,
                         const TwoPassPlan plan) {
  TWINOPS_DYNAMIC_SHARED(smem);
  if constexpr (S::kVector == 1)
    if (params.in_vectors)
      return grad_two_pass_rows<kLog, In, ChunkFragment<16 / sizeof(In), true>>(params, plan, smem);
  grad_two_pass_rows<kLog, In, S>(params, plan, smem);
}

}  // namespace twinops
