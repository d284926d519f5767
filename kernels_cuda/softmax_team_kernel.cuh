// The kernel of softmax and log_softmax in 16 bits where a team works on a row, a chunk a warp. A
// row's parts travel while the team weighs the next row; its own weights wait in shared memory
// meanwhile, and another row is on its way there. Eight warps a block, so that a multiprocessor has
// four that wait at different times (float16 at 2^19: 0.80 of the copy rate, of 16 warps 0.74, of
// two chunks a warp and one row after the other 0.68).
//
// What each part of it costs there, found by leaving it out (bfloat16 at 2^20, 0.74): without the
// exponentials 0.79, without waiting for the other blocks 0.82, without stores 0.88, without loads
// 0.78.
//
// Tried and left: teams of 128 blocks of eight warps in place of 64 of 16 (float16 at 2^20 0.71 in
// place of 0.745); a barrier for every eight of those 16 (no gain); a pause before letters are
// looked for again (no gain); rows of up to 2^17 (kAhead in softmax_launch.cuh); warps that
// go on without a barrier, the last one of a block sending its parts and each in turn receiving a
// row (bfloat16 at 2^20 0.73 to 0.66), the same with the barrier (no gain); another warp to receive
// than the one that sends (bfloat16's logarithm 0.76 to 0.78 at 2^19, float16's 0.80 to 0.79 at
// 2^18; on another machine no gain); weights that take the place of the waiting ones pack by pack,
// as these are stored (0.73 to 0.69 at 2^20); letters asked for before the row is weighed (bfloat16
// at 2^20 0.74 to 0.72, at 2^18 0.71 to 0.63, in registers to less); waiting packs that are read
// one ahead of their stores (no gain); the logarithm's elements waiting as they were read, in half
// the memory (0.71 to 0.70).
#pragma once

#include "kernels_cuda/row_pipeline.cuh"
#include "kernels_cuda/row_plan.cuh"
#include "kernels_cuda/softmax_share.cuh"
#include "kernels_cuda/team_relay.cuh"
#include "kernels_cuda/team_rounds.cuh"
#include "kernels_cuda/waiting_chunk.cuh"

namespace twinops {

// What the blocks of a team have in shared memory, and in global memory.
template <class Job, class S>
struct TeamRoom {
  using F = typename Job::F;
  using Rounds = TeamRounds<typename Job::In, F>;
  using Relay = TeamRelay<SoftmaxPart<F>, SoftmaxRow<F>>;
  using Waiting = WaitingChunk<typename Job::In, S>;
  using Next = NextChunk<typename Job::In, S>;

  static constexpr int kOfWarp = 1, kMostBlocks = Relay::kMost;
  static constexpr std::size_t bytes(std::size_t warps) {
    return Relay::bytes() + Rounds::bytes() + Waiting::bytes(warps) + Next::bytes(warps);
  }
  static constexpr std::size_t scratch_bytes(std::size_t blocks, std::size_t turns) {
    return Relay::Board::bytes(blocks) + Rounds::scratch_bytes(blocks, turns);
  }
  __device__ static void* after_board(void* scratch) {
    return static_cast<unsigned char*>(scratch) + Relay::Board::bytes(gridDim.x * gridDim.y);
  }
};

template <bool kLog, class Job, class S>
__global__ void __launch_bounds__(Job::kMostWarps* kWarp)
    softmax_team_kernel(const __grid_constant__ Job job, const __grid_constant__ ChunkRows plan) {
  using F = typename Job::F;
  using In = typename Job::In;
  using Room = TeamRoom<Job, S>;
  constexpr int V = S::kPack;
  TWINOPS_DYNAMIC_SHARED(memory);
  const int rows = static_cast<int>(job.rows.rows);
  typename Room::Relay relay(memory, plan);
  const typename Room::Rounds rounds(memory + relay.bytes(), Room::after_board(plan.board), rows);
  unsigned char* const room = memory + relay.bytes() + rounds.bytes();
  const typename Room::Waiting waiting(room);
  const typename Room::Next next(room + Room::Waiting::bytes(plan.warps));
  const int begin = (static_cast<int>(blockIdx.x) * plan.warps + threadIdx.x / kWarp) * kFoldChunk;
  const int left = static_cast<int>(job.rows.length) - begin;
  const auto share_of = [&](const In* from) {
    return S(from, left, S::kRagged ? lane_anew() : threadIdx.x % kWarp);
  };
  const auto start = [&](int k, int r) {  // of this warp's chunk of row r
    return row_starts<true>(job.rows.outer, r).of[k] + begin;
  };
  const auto from = [&](int r) { return job.x + start(1, r); };
  const auto fetch = [&](int r) {
    if (r < rows) next.fetch(share_of(from(r)), from(r), job.x_end);
  };

  F max_before = F(0);
  rounds.begin();
  fetch(static_cast<int>(blockIdx.y));
  relay.begin();
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    const bool second = rounds.is_second();
    const int r = rounds.row(second, turn);
    const bool more = r < rows;
    F x[S::kElements], max = F(0);
    if (more) {
      const S share = share_of(from(r));
      Pack<In, V> packs[S::kElements / V];
      next.take(share, kPad<In>, packs);
      fetch(rounds.row(second, turn + 1));
      if constexpr (S::kRagged) __syncwarp();  // else the compiler writes what follows twice
      const LaneRange<F> range =
          moved<S>(widen_share<S>(packs, share.full(), x), rounds.shift(second, turn), x);
      max = greatest_of_lanes<kWarp>(range.max);
      const F sum = weigh<kLog, S, In>(x, max, range.min, share.left() == 0);
      relay.bring(turn, {max, sum});
    }
    const bool had_row = rounds.had_row(second, turn);
    const SoftmaxRow<F> row =
        relay.pass(turn, had_row, more, join_pairs<F>, finish_row<kLog, In, F>);
    if (had_row) {
      const int before = rounds.row(second, turn - 1);
      if (!rounds.note(before, row.max)) {
        const auto value = [&](int p, F(&y)[V]) { waiting.get_pack(p, y); };
        store_values<kLog>(job, share_of(from(before)), start(0, before), 1, value, row.max,
                           last_of_chunk<kLog>(row, max_before));
      }
    }
    if (more) {
      waiting.put(x);
      max_before = max;
    } else if (rounds.another(turn + 1)) {
      fetch(rounds.row(true, turn + 1));
    } else {
      break;
    }
  }
}

}  // namespace twinops
