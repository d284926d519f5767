// The kernel of softmax_grad and log_softmax_grad where a cluster has registers for half of a row:
// two chunks a warp. The first waits in shared memory as it came there, until the row's sum is
// known; the second, on its way to L2 meanwhile, stays in registers. A cluster has one row, as in
// softmax_pair_kernel.cuh.
//
// Tried and left: a logarithm's team that sends for all of its dy ahead, and for the second chunk's
// y once its part is on its way (float16 on an H200 at 200 001 columns 0.80 to 0.71 of the copy
// rate, at 2^20 0.80 to 0.75, float32 0.83 to 0.81).
#pragma once

#include "kernels_cuda/softmax/grad_block_kernel.cuh"

namespace twinops {

// OfRow: what a row's blocks are, a cluster or a team.
template <bool kLog, class In, class Out, class S, template <class, class> class OfRow>
__global__ void __launch_bounds__(kGradWarps<In, S::kPack>* kWarp)
    grad_pair_kernel(const __grid_constant__ GradJob<In, Out> job,
                     const __grid_constant__ ChunkRows plan) {
  using F = compute_t<In>;
  using Next = NextChunk<In, S>;
  TWINOPS_DYNAMIC_SHARED(memory);
  OfRow<F, F> sums(memory, plan);
  unsigned char* const room = memory + sums.bytes(plan.chunks);
  const Next next_y(room), next_dy(room + Next::bytes(plan.warps));
  constexpr bool kStays = OfRow<F, F>::kStays;
  const int rows = static_cast<int>(job.rows.rows), length = static_cast<int>(job.rows.length);
  const int warp = kStays ? 0 : warp_of_all_lanes(), first = sums.block_of_row() * 2 * plan.warps;
  const auto chunk_of = [&](int half) {
    return first + half * plan.warps + (kStays ? warp_anew() : warp);
  };
  const auto left_of = [&](int half) { return length - chunk_of(half) * kFoldChunk; };
  const auto at = [&](int r, int half) {  // the row's chunk, of each operand
    RowStarts<3> starts = row_starts<OfRow<F, F>::kOneAxis>(job.rows.outer, r);
#pragma unroll
    for (int k = 0; k < 3; ++k) starts.of[k] += chunk_of(half) * kFoldChunk;
    return starts;
  };
  const auto share_of = [&](const RowStarts<3>& starts, int half) {
    const int lane = S::kRagged ? lane_anew() : threadIdx.x % kWarp;
    return S(job.y + starts.of[1], left_of(half), lane);
  };
  const auto fetch = [&](int r) {
    const RowStarts<3> starts = at(r, 0);
    const S share = share_of(starts, 0);
    next_y.fetch(share, job.y + starts.of[1], job.y_end, left_of(0));
    next_dy.fetch(share, job.dy + starts.of[2], job.dy_end, left_of(0));
  };

  int r = sums.first_row(), turn = 0;
  fetch(r);
  if constexpr (!kStays) {
    const RowStarts<3> starts = at(r, 1);
    bring_to_l2(job.y + starts.of[1], left_of(1));
    bring_to_l2(job.dy + starts.of[2], left_of(1));
  }
  sums.begin();
#pragma unroll 1
  while (true) {
    GradShare<In, S> of_lane;
    const auto take = [&](const S& share) {
      next_y.template take<false>(share, In{}, of_lane.y);
      next_dy.template take<false>(share, In{}, of_lane.dy);
    };
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      const RowStarts<3> starts = at(r, half);
      const S share = share_of(starts, half);
      half == 0 ? take(share)
                : of_lane.load(share, job.y + starts.of[1], 1, job.dy + starts.of[2], 1);
      if constexpr (S::kRagged) __syncwarp();  // else the compiler writes what follows twice
      sums.bring(turn, chunk_of(half), of_lane.template sum<kLog>());
    }
    const F sum = sums.joined(turn, join_sums<2, F>, [](F sum) { return sum; });
    of_lane.template forget<kLog>();
    [[maybe_unused]] int after = 0;
    if constexpr (kStays) after = r + sums.rows_at_once();
#pragma unroll 1
    for (int half = 1; half >= 0; --half) {
      const RowStarts<3> starts = at(r, half);
      const S share = share_of(starts, half);
      if (half == 0) {
        take(share);
        if constexpr (kStays)
          if (after < rows) fetch(after);
      }
      constexpr bool kInTurn = false, kAnew = true;
      of_lane.template store<kLog, kInTurn, kAnew>(share, job.dx + starts.of[0], 1, sum, job.scale);
    }
    if constexpr (kStays) {
      if (after >= rows) break;
      r = after;
      ++turn;
    } else {
      break;
    }
  }
  sums.leave();
}

}  // namespace twinops
