// The parts of a row's chunks, brought together in every block of a team (team_board.cuh) a turn
// late: they travel while the team works on the next row.
#pragma once

#include <cooperative_groups.h>

#include "kernels_cuda/team_board.cuh"

namespace twinops {

// A launch is blocks of a team by teams, in blocks with a chunk a warp.
template <class Part, class Row>
class TeamRelay {
 public:
  // Whoever sends of turn i + 4 has read all of turn i + 2, whose senders had read those of turn i.
  using Board = TeamBoard<Part, 4>;
  static constexpr int kMost = 2 * kWarp;  // blocks of a team

  static constexpr std::size_t bytes() { return sizeof(Memory); }

  // plan.board: of all blocks.
  __device__ TeamRelay(void* memory, const ChunkRows& plan)
      : memory_(*static_cast<Memory*>(memory)), plan_(plan) {}

  // All threads of the grid, before the first part is brought.
  __device__ __forceinline__ void begin() {
    board().clear();
    cooperative_groups::this_grid().sync();
  }
  // All lanes of the warp whose chunk it is, of a block that has as many as warps, or fewer.
  __device__ __forceinline__ void bring(int turn, Part part) {
    if (lane_anew() == 0) memory_.parts[turn & 1][warp_anew()] = part;
  }
  // All threads, once their chunk's part of this turn is brought, or, after the last, nothing
  // (more: false). Sends it on, and returns the row of the turn before, if there was one (had_row).
  //
  // One barrier a turn. The first warp comes to it when the turn before is joined, and joins this
  // turn's parts after it; the others need not wait for that.
  template <class Join, class Finish>
  __device__ __forceinline__ Row pass(int turn, bool had_row, bool more, Join&& join,
                                      Finish&& finish) {
    if (had_row && warp_anew() == 0) keep(turn - 1, finish(receive(turn - 1, join)));
    __syncthreads();
    if (more && warp_anew() == 0) send(turn, join);
    return memory_.rows[(turn - 1) & 1];
  }

 private:
  struct alignas(16) Memory {  // two turns: a row is read, and parts are, while the next come
    Row rows[2];
    Part parts[2][kWarp], blocks[kMost];
  };
  __device__ __forceinline__ void keep(int turn, Row row) const {
    if (lane_anew() == 0) memory_.rows[turn & 1] = row;
  }
  template <class Join>
  __device__ __forceinline__ void send(int turn, Join&& join) const {
    const int before = static_cast<int>(blockIdx.x) * plan_.warps;
    const Part part = join(memory_.parts[turn & 1], min(plan_.warps, plan_.chunks - before));
    if (lane_anew() == 0) board().send(turn, part);
  }
  template <class Join>
  __device__ __forceinline__ Part receive(int turn, Join&& join) const {
    board().receive(turn, memory_.blocks);
    return join(memory_.blocks, static_cast<int>(gridDim.x));
  }
  __device__ __forceinline__ Board board() const { return Board(plan_.board); }

  Memory& memory_;
  const ChunkRows& plan_;
};

}  // namespace twinops
