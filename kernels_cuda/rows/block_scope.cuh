// Block scope: combines the parts of a row's chunks where one block has the row, in its shared
// memory, between barriers.
#pragma once

#include "kernels_cuda/rows/cluster_scope.cuh"
#include "kernels_cuda/rows/lane_layout.cuh"

namespace twinops {

// As ClusterScope, for up to 2 * kWarp chunks. One warp joins the parts for all others
// (docs/lab/softmax-block-kernel.md#a-chunk-a-warp).
template <class Part, class Row>
class BlockScope {
 public:
  static constexpr int kMostChunks = 2 * kWarp;
  __host__ __device__ static constexpr int bytes(int chunks) {
    return static_cast<int>(sizeof(Smem)) +
           (2 * chunks * static_cast<int>(sizeof(Part)) + 15) / 16 * 16;
  }

  __device__ static int block_of_row() { return 0; }
  __device__ static int first_row() { return static_cast<int>(blockIdx.x); }

  __device__ BlockScope(void* smem, const ChunkPlan& plan)
      : smem_(*static_cast<Smem*>(smem)), plan_(plan) {}

  __device__ __forceinline__ void begin() {}

  __device__ __forceinline__ void publish(int turn, int chunk, Part part) {
    if (reload_lane() == 0 && chunk < plan_.chunks) of_turn(turn)[chunk] = part;
  }

  template <class Join, class Finish>
  __device__ __forceinline__ Row combine(int turn, Join&& join, Finish&& finish) {
    __syncthreads();
    if (reload_warp() == 0) {
      const Row row = finish(join(of_turn(turn), plan_.chunks));
      if (reload_lane() == 0) smem_.rows[turn & 1] = row;
    }
    __syncthreads();
    return smem_.rows[turn & 1];
  }

  __device__ __forceinline__ void leave() {}

 private:
  struct alignas(16) Smem {  // followed by the parts of two turns
    Row rows[2];
  };
  __device__ __forceinline__ Part* of_turn(int turn) const {
    return reinterpret_cast<Part*>(&smem_ + 1) + (turn & 1) * plan_.chunks;
  }

  Smem& smem_;
  const ChunkPlan& plan_;
};

}  // namespace twinops
