// The parts of a row's chunks, brought together in every block of the cluster that works on the
// row. They are sent straight to the others' shared memory and counted there by an mbarrier: a
// barrier of the cluster would wait for every store to global memory as well.
#pragma once

#include "kernels_cuda/rows/fold.cuh"
#include "kernels_cuda/rows/lane_layout.cuh"

namespace twinops {

// Arrives and waits: all threads of a cluster, or of a block that is alone.
__device__ __forceinline__ void cluster_barrier(int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    cluster_sync();
    return;
  }
#endif
  __syncthreads();
}

// What a launch of a chunk or two a warp settles.
struct ChunkPlan {
  int chunks;      // of a row
  int blocks;      // of a row: the cluster, or the team
  int warps;       // of a block
  void* exchange;  // where teams meet
};

// A row's parts, and where it is begun again, in another turn, its parts of that: two turns lie
// side by side, so that one can still be read while the next is being written. Whoever brings a
// part of turn i + 2 has all parts of turn i + 1, which others brought after turn i.
//
// One warp makes a Row of them for its block, where there are many after one warp each has joined
// kGroup neighbours: were every warp to do it, it would be a third of a kernel's instructions at
// 256 chunks.
//
// Tried and left, with clusters that took row after row: warps without a chunk that leave at once
// (float16 at 65536 0.79 to 0.59 of the copy rate: where the way ahead depends on the thread, the
// compiler keeps a third as much in uniform registers and spills others); every warp waiting for
// the parts and joining them by itself, without a barrier of the block (0.64 to 0.59 at 50257,
// float32 0.85 to 0.72).
template <class Part, class Row>
class ClusterScope {
 public:
  static_assert(sizeof(Part) == 4 || sizeof(Part) == 8 || sizeof(Part) == 16);
  static constexpr int kGroup = 2 * kWarp, kMostChunks = 16 * kGroup;
  __host__ __device__ static constexpr int bytes(int chunks) {
    return static_cast<int>(sizeof(Smem)) +
           (2 * chunks * static_cast<int>(sizeof(Part)) + 15) / 16 * 16;
  }

  static constexpr bool kOneAxis = false;     // of row_starts()
  static constexpr bool kPersistent = false;  // and takes row after row

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

  // All threads of the row's blocks, before the first part is brought.
  // Relaxed, for the barriers are shown already: nobody waits for what is on its way to him.
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

  // Turns count from 0. All lanes of the warp whose chunk it is. A chunk beyond the row brings
  // nothing, but every block has one that does.
  __device__ __forceinline__ void publish(int turn, int chunk, Part part) {
#if __CUDA_ARCH__ >= 900
    const int lane = threadIdx.x % kWarp, side = turn & 1;
    if (chunk >= chunks_ || lane >= blocks_) return;
    send_to_block(parts_ + side * chunks_ + chunk, &smem_.arrived[side], lane, part);
#endif
  }

  // All threads: what finish() makes of the row's parts, joined. join(parts, count) joins up to
  // kGroup by a warp, every lane of which has the result.
  template <class Join, class Finish>
  __device__ __forceinline__ Row combine(int turn, Join&& join, Finish&& finish) {
    const int warp = threadIdx.x / kWarp;
    const int groups = (chunks_ + kGroup - 1) / kGroup;  // no more than the block has warps
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

  // All threads, before they leave: nobody's memory goes while others may send to it. Relaxed, for
  // what they have stored in global memory nobody waits.
  __device__ __forceinline__ void leave() {
#if __CUDA_ARCH__ >= 900
    if (blocks_ > 1) cluster_sync_relaxed();
#endif
  }

 private:
  struct alignas(16) Smem {  // then: two times the parts
    std::uint64_t arrived[2];
    Row rows[2];
    Part groups[2][kMostChunks / kGroup];
  };

  // Until the parts of this turn's row are there.
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
