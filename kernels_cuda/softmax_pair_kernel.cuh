// The kernel of softmax and log_softmax where a cluster has registers for half of a row: two chunks
// a warp, the first of which waits in shared memory. Where its weights wait, the next row's first
// chunk comes to lie while the rest of this row is stored; of 16-bit types, the next row's second
// chunk has room there as well. Work begins when the first chunk is there: blocks that waited for
// both, and at the cluster's first barrier for all that was on its way, stood still for 4 of 80
// microseconds (bfloat16 at 32768, with widen_share's kLast 0.84 to 0.87 of the copy rate).
#pragma once

#include "kernels_cuda/row_pipeline.cuh"
#include "kernels_cuda/row_plan.cuh"
#include "kernels_cuda/softmax_share.cuh"
#include "kernels_cuda/waiting_chunk.cuh"

namespace twinops {

// A block's shared memory after the parts.
template <class Job, class S>
struct PairRoom {
  using In = typename Job::In;
  using Waiting = WaitingChunk<In, S>;
  using Next = NextChunk<In, S>;
  static constexpr bool kFetchSecond = sizeof(In) == 2;

  static constexpr std::size_t bytes(std::size_t warps) {
    return Waiting::bytes(warps) + (kFetchSecond ? Next::bytes(warps) : 0);
  }
};

// What a row's blocks are: a cluster or a team.
template <class F>
using ClusterOfRow = RowParts<SoftmaxPart<F>, SoftmaxRow<F>>;
template <class F>
using TeamOfRow = TeamParts<SoftmaxPart<F>, SoftmaxRow<F>>;

template <bool kLog, class Job, class S, template <class> class OfRow>
__global__ void __launch_bounds__(Job::kMostWarps* kWarp)
    softmax_pair_kernel(const __grid_constant__ Job job, const __grid_constant__ ChunkRows plan) {
  using F = typename Job::F;
  using In = typename Job::In;
  using Room = PairRoom<Job, S>;
  using Waiting = typename Room::Waiting;
  using Next = typename Room::Next;
  TWINOPS_DYNAMIC_SHARED(memory);
  OfRow<F> parts(memory, plan);
  unsigned char* const room = memory + parts.bytes(plan.chunks);
  const Waiting waiting(room);
  const int first = parts.block_of_row(plan) * 2 * plan.warps;
  const int rows = static_cast<int>(job.rows.rows), length = static_cast<int>(job.rows.length);
  const int row_step = parts.rows_at_once(plan);
  const auto chunk_of = [&](int half) { return first + half * plan.warps + warp_anew(); };
  const auto from = [&](const auto& row, int chunk) {
    return job.x + row.of[1] + chunk * kFoldChunk;
  };
  const auto share_of = [&](const In* from, int chunk) {
    const int lane = S::kRagged ? lane_anew() : threadIdx.x % kWarp;
    return S(from, length - chunk * kFoldChunk, lane);
  };
  const auto next_of = [&](int half) {
    return half == 0 ? Next(room, Waiting::kOfWarp) : Next(room + Waiting::bytes(plan.warps));
  };
  const auto fetch = [&](int r, const auto& row, int half, int chunk) {
    const In* const at = from(row, chunk);
    if (r < rows) next_of(half).fetch(share_of(at, chunk), at, job.x_end);
  };

  int r = parts.first_row(plan), turn = 0;
  constexpr bool kOneAxis = OfRow<F>::kOneAxis;
  auto starts = row_starts<kOneAxis>(job.rows.outer, r);
  fetch(r, starts, 0, chunk_of(0));
  if constexpr (Room::kFetchSecond) {
    __pipeline_commit();
    fetch(r, starts, 1, chunk_of(1));
    __pipeline_commit();
  }
  parts.begin();
  for (; r < rows; r += row_step) {
    const auto starts_after = row_starts<kOneAxis>(job.rows.outer, r + row_step);
    F x[S::kElements], first_max = F(0), max = F(0), shift = F(0);
    SoftmaxRow<F> row;
    while (true) {
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        if (half != 0) {
          waiting.put(x);
          first_max = max;
        }
        const int chunk = chunk_of(half);
        const In* const at = from(starts, chunk);
        const S share = share_of(at, chunk);
        Pack<In, S::kPack> packs[S::kElements / S::kPack];
        if ((!kMeetsFar<Job> || shift == F(0)) && (half == 0 || Room::kFetchSecond)) {
          next_of(half).take(share, kPad<In>, packs, Room::kFetchSecond && turn == 0 && half == 0);
          if (half != 0) fetch(r + row_step, starts_after, half, chunk);
        } else {
          share.load(at, 1, kPad<In>, packs);
        }
        if constexpr (S::kRagged) __syncwarp();  // else the compiler writes what follows twice
        LaneRange<F> range = widen_share<S, true>(packs, true, x);
        if constexpr (kMeetsFar<Job>) range = moved<S>(range, shift, x);
        max = greatest_of_lanes<kWarp>(range.max);
        const F sum = weigh<kLog, S, In>(x, max, range.min, sizeof(In) == 2 && share.left() == 0);
        parts.bring(turn, chunk, {max, sum});
      }
      row = parts.joined(turn++, join_pairs<F>, finish_row<kLog, In, F>);
      if (!kMeetsFar<Job> || kind_of_row(row.max) != RowKind::far) break;
      shift = row.max;
    }
#pragma unroll 1
    for (int half = 1; half >= 0; --half) {
      const int chunk = chunk_of(half);
      if (half == 0) {
        waiting.get(x);
        max = first_max;
        fetch(r + row_step, starts_after, half, chunk);
      }
      store_share<kLog>(job, share_of(from(starts, chunk), chunk),
                        starts.of[0] + chunk * kFoldChunk, 1, x, row.max,
                        last_of_chunk<kLog>(row, max));
    }
    starts = starts_after;
  }
  parts.leave();
}

}  // namespace twinops
