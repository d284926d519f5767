// Cluster scope: combines the parts of a row's chunks in every block of the cluster that has the
// row. A part is sent straight to the shared memory of the other blocks, where an mbarrier counts
// its bytes: a barrier of the cluster would also wait for every store to global memory.
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/rows/lane_layout.cuh"

namespace twinops {

// A barrier of all threads of a cluster, or of a block that is alone.
__device__ __forceinline__ void cluster_barrier(int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    cluster_sync();
    return;
  }
#endif
  __syncthreads();
}

// What a launch of one or two chunks a warp decides.
struct ChunkPlan {
  int chunks;  // of a row
  int blocks;  // of a row: the cluster
  int warps;   // of a block
};

// Turn t is the row's t-th pass over its parts; a row whose maximum is out of range takes a second
// one. The parts of two turns lie side by side, so that one can be read while the next is written:
// whoever publishes a part of turn t + 2 has all parts of turn t + 1, which others published after
// turn t.
//
// One warp makes the row's result for its block. Where a row has more than kGroup parts, each of
// several warps joins kGroup neighbours first
// (docs/lab/softmax-block-kernel.md#parts-in-a-cluster).
template <class Part, class Row>
class ClusterScope {
 public:
  static_assert(sizeof(Part) == 4 || sizeof(Part) == 8 || sizeof(Part) == 16);
  static constexpr int kGroup = 2 * kWarp, kMostChunks = 16 * kGroup;
  __host__ __device__ static constexpr int bytes(int chunks) {
    return static_cast<int>(sizeof(Smem)) +
           (2 * chunks * static_cast<int>(sizeof(Part)) + 15) / 16 * 16;
  }

#if __CUDA_ARCH__ >= 900
  __device__ static int block_of_row() { return block_of_cluster(); }
  __device__ static int first_row() { return cluster_of_grid(); }
#else
  __device__ static int block_of_row() { return 0; }
  __device__ static int first_row() { return static_cast<int>(blockIdx.x); }
#endif

  // All threads of the row's blocks.
  __device__ ClusterScope(void* smem, const ChunkPlan& plan)
      : smem_(*static_cast<Smem*>(smem)),
        parts_(reinterpret_cast<Part*>(&smem_ + 1)),
        chunks_(plan.chunks),
        blocks_(plan.blocks) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      for (std::uint64_t& arrived : smem_.arrived) start_barrier(arrived);
      show_barriers_to_cluster();
    }
#endif
  }

  // All threads of the row's blocks, before the first part is published. Relaxed: the mbarriers are
  // already visible to the cluster, and nothing else has to be.
  __device__ __forceinline__ void begin() {
#if __CUDA_ARCH__ >= 900
    if (blocks_ > 1) {
      cluster_arrive_relaxed();
      cluster_wait();
      return;
    }
#endif
    __syncthreads();
  }

  // All lanes of the warp that has the chunk. A chunk beyond the row publishes nothing, but every
  // block has one that does.
  __device__ __forceinline__ void publish(int turn, int chunk, Part part) {
#if __CUDA_ARCH__ >= 900
    const int lane = threadIdx.x % kWarp, side = turn & 1;
    if (chunk >= chunks_ || lane >= blocks_) return;
    send_to_block(parts_ + side * chunks_ + chunk, &smem_.arrived[side], lane, part);
#endif
  }

  // All threads: finish(the row's parts, joined). join(parts, count) joins up to kGroup of them by
  // a warp, every lane of which has the result.
  template <class Join, class Finish>
  __device__ __forceinline__ Row combine(int turn, Join&& join, Finish&& finish) {
    const int warp = threadIdx.x / kWarp;
    const int groups = (chunks_ + kGroup - 1) / kGroup;  // a block has at least as many warps
    Part* const of_group = smem_.groups[turn & 1];
    const auto finish_by_one = [&](Part part) {
      const Row row = finish(part);
      if (threadIdx.x == 0) smem_.rows[turn & 1] = row;
    };
    if (warp < groups) {
      wait(turn);
      const int first = warp * kGroup;
      const Part part = join(parts_ + (turn & 1) * chunks_ + first, min(kGroup, chunks_ - first));
      if (groups == 1)
        finish_by_one(part);
      else if (threadIdx.x % kWarp == 0)
        of_group[warp] = part;
    }
    __syncthreads();
    if (groups > 1) {
      if (warp == 0) finish_by_one(join(of_group, groups));
      __syncthreads();
    }
    return smem_.rows[turn & 1];
  }

  // All threads, before they leave: no block's memory may go while others may still send to it.
  // Relaxed: stores to global memory need not have arrived.
  __device__ __forceinline__ void leave() {
#if __CUDA_ARCH__ >= 900
    if (blocks_ > 1) cluster_sync_relaxed();
#endif
  }

 private:
  struct alignas(16) Smem {  // followed by the parts of two turns
    std::uint64_t arrived[2];
    Row rows[2];
    Part groups[2][kMostChunks / kGroup];
  };

  // Waits until all parts of the turn are there.
  __device__ __forceinline__ void wait(int turn) {
#if __CUDA_ARCH__ >= 900
    const SharedAddress arrived = shared_address(&smem_.arrived[turn & 1]);
    if (threadIdx.x == 0) expect_bytes(arrived, chunks_ * static_cast<int>(sizeof(Part)));
    wait_for_phase(arrived, turn >> 1 & 1);
#endif
  }

  Smem& smem_;
  Part* parts_;
  int chunks_, blocks_;
};

}  // namespace twinops
