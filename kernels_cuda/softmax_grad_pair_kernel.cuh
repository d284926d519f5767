// The kernel of softmax_grad and log_softmax_grad where a cluster has registers for half of a row:
// two chunks a warp. The first waits in shared memory as it came there, until the row's sum is
// known; the second stays in registers.
#pragma once

#include "kernels_cuda/softmax_grad_kernels.cuh"

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
  const int rows = static_cast<int>(job.rows.rows), length = static_cast<int>(job.rows.length);
  const int row_step = sums.rows_at_once(plan);
  const auto chunk_of = [&](int half) {
    return (2 * sums.block_of_row(plan) + half) * plan.warps + warp_anew();
  };
  const auto at = [&](int r, int half) {  // the row's chunk, of each operand
    RowStarts<3> starts = row_starts<OfRow<F, F>::kOneAxis>(job.rows.outer, r);
#pragma unroll
    for (int k = 0; k < 3; ++k) starts.of[k] += chunk_of(half) * kFoldChunk;
    return starts;
  };
  const auto share_of = [&](const RowStarts<3>& starts, int half) {
    const int lane = S::kRagged ? lane_anew() : threadIdx.x % kWarp;
    return S(job.y + starts.of[1], length - chunk_of(half) * kFoldChunk, lane);
  };
  const auto fetch = [&](int r) {
    if (r >= rows) return;
    const RowStarts<3> starts = at(r, 0);
    const S share = share_of(starts, 0);
    next_y.fetch(share, job.y + starts.of[1], job.y_end);
    next_dy.fetch(share, job.dy + starts.of[2], job.dy_end);
  };

  int r = sums.first_row(plan), turn = 0;
  fetch(r);
  sums.begin();
  for (; r < rows; r += row_step, ++turn) {
    GradShare<In, S> of_lane;
    const auto take = [&](const S& share) {
      next_y.take(share, In{}, of_lane.y);
      next_dy.take(share, In{}, of_lane.dy);
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
    const F sum = sums.joined(turn, join_sum_pairs<F>, [](F sum) { return sum; });
    of_lane.template forget<kLog>();
#pragma unroll 1
    for (int half = 1; half >= 0; --half) {
      const RowStarts<3> starts = at(r, half);
      const S share = share_of(starts, half);
      if (half == 0) {
        take(share);
        fetch(r + row_step);
      }
      constexpr bool kInTurn = false, kAnew = true;
      of_lane.template store<kLog, kInTurn, kAnew>(share, job.dx + starts.of[0], 1, sum, job.scale);
    }
  }
  sums.leave();
}

}  // namespace twinops
