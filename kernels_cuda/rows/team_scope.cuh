// The parts of a row's chunks, brought together in every block of the team that works on the row
// (team_board.cuh), before the next row is begun. A block joins its own chunks first, so that one
// part a block travels.
//
// Tried and left: the next row's weights before this row's parts are there, with two chunks a warp,
// which takes 16 % more instructions and spills registers (float16 softmax at 2^20 0.65 in place of
// 0.68; with one chunk a warp it is softmax_dealt_kernel.cuh); teams that begin out of step (no
// gain); the next row on its way to L2 while the parts travel (float16 softmax 0.67 to 0.68, the
// gradients 0.79 to 0.73).
#pragma once

#include <cooperative_groups.h>

#include "kernels_cuda/rows/lane_layout.cuh"
#include "kernels_cuda/rows/team_board.cuh"

namespace twinops {

// A launch is blocks of a team by teams, in blocks with two chunks a warp.
template <class Part, class Row>
class TeamParts {
 public:
  using Board = TeamBoard<Part>;
  static constexpr int kMost = 2 * kWarp;  // chunks of a block, and blocks of a team

  __host__ __device__ static constexpr int bytes(int) { return sizeof(Memory); }

  static constexpr bool kOneAxis = true;  // of row_starts()
  static constexpr bool kStays = true;    // and takes row after row

  __device__ static int block_of_row() { return static_cast<int>(blockIdx.x); }
  __device__ static int first_row() { return static_cast<int>(blockIdx.y); }
  __device__ static int rows_at_once() { return static_cast<int>(gridDim.y); }

  // plan.board: of all blocks.
  __device__ TeamParts(void* memory, const ChunkRows& plan)
      : memory_(*static_cast<Memory*>(memory)), plan_(plan) {}

  // All threads of the grid, before the first part is brought.
  __device__ __forceinline__ void begin() {
    board().clear();
    cooperative_groups::this_grid().sync();
  }

  // As in RowParts. Letters of two rows in turn: whoever writes one of turn i + 2 has read all of
  // turn i + 1, whose senders had read those of turn i.
  __device__ __forceinline__ void bring(int, int chunk, Part part) {
    if (lane_anew() == 0) memory_.parts[chunk & (of_block() - 1)] = part;
  }
  template <class Join, class Finish>
  __device__ __forceinline__ Row joined(int turn, Join&& join, Finish&& finish) {
    __syncthreads();
    if (warp_anew() == 0) {
      const int before = static_cast<int>(blockIdx.x) * of_block();
      const Part part = join(memory_.parts, min(of_block(), plan_.chunks - before));
      if (lane_anew() == 0) board().send(turn, part);
      board().receive(turn, memory_.blocks);
      const Row row = finish(join(memory_.blocks, static_cast<int>(gridDim.x)));
      if (lane_anew() == 0) memory_.row = row;
    }
    __syncthreads();
    return memory_.row;
  }
  __device__ __forceinline__ void leave() {}

 private:
  struct alignas(16) Memory {
    Row row;
    Part parts[kMost], blocks[kMost];
  };
  __device__ __forceinline__ int of_block() const { return 2 * plan_.warps; }
  __device__ __forceinline__ Board board() const { return Board(plan_.board); }

  Memory& memory_;
  const ChunkRows& plan_;
};

}  // namespace twinops
