// The parts of a row's chunks, brought together in every block of the team that works on the row
// (rows/cooperative_exchange.cuh), before the next row is begun. A block joins its own chunks
// first, so that one part a block travels.
//
// Tried and left: the next row's weights before this row's parts are there, with two chunks a warp,
// which takes 16 % more instructions and spills registers (float16 softmax at 2^20 0.65 in place of
// 0.68; with one chunk a warp it is softmax/grid_kernel.cuh); teams that begin out of step (no
// gain); the next row on its way to L2 while the parts travel (float16 softmax 0.67 to 0.68, the
// gradients 0.79 to 0.73).
#pragma once

#include <cooperative_groups.h>

#include "kernels_cuda/rows/cooperative_exchange.cuh"
#include "kernels_cuda/rows/lane_layout.cuh"

namespace twinops {

// A launch is blocks of a team by teams, in blocks with two chunks a warp.
template <class Part, class Row>
class CooperativeScope {
 public:
  using Exchange = CooperativeExchange<Part>;
  static constexpr int kMost = 2 * kWarp;  // chunks of a block, and blocks of a team

  __host__ __device__ static constexpr int bytes(int) { return sizeof(Smem); }

  static constexpr bool kOneAxis = true;     // of row_starts()
  static constexpr bool kPersistent = true;  // and takes row after row

  __device__ static int block_of_row() { return static_cast<int>(blockIdx.x); }
  __device__ static int first_row() { return static_cast<int>(blockIdx.y); }
  __device__ static int rows_at_once() { return static_cast<int>(gridDim.y); }

  // plan.board: of all blocks.
  __device__ CooperativeScope(void* smem, const ChunkPlan& plan)
      : smem_(*static_cast<Smem*>(smem)), plan_(plan) {}

  // All threads of the grid, before the first part is brought.
  __device__ __forceinline__ void begin() {
    exchange().clear();
    cooperative_groups::this_grid().sync();
  }

  // As in ClusterScope. Letters of two rows in turn: whoever writes one of turn i + 2 has read all
  // of turn i + 1, whose senders had read those of turn i.
  __device__ __forceinline__ void publish(int, int chunk, Part part) {
    if (reload_lane() == 0) smem_.parts[chunk & (of_block() - 1)] = part;
  }
  template <class Join, class Finish>
  __device__ __forceinline__ Row combine(int turn, Join&& join, Finish&& finish) {
    __syncthreads();
    if (reload_warp() == 0) {
      const int before = static_cast<int>(blockIdx.x) * of_block();
      const Part part = join(smem_.parts, min(of_block(), plan_.chunks - before));
      if (reload_lane() == 0) exchange().send(turn, part);
      exchange().receive(turn, smem_.blocks);
      const Row row = finish(join(smem_.blocks, static_cast<int>(gridDim.x)));
      if (reload_lane() == 0) smem_.row = row;
    }
    __syncthreads();
    return smem_.row;
  }
  __device__ __forceinline__ void leave() {}

 private:
  struct alignas(16) Smem {
    Row row;
    Part parts[kMost], blocks[kMost];
  };
  __device__ __forceinline__ int of_block() const { return 2 * plan_.warps; }
  __device__ __forceinline__ Exchange exchange() const { return Exchange(plan_.exchange); }

  Smem& smem_;
  const ChunkPlan& plan_;
};

}  // namespace twinops
