// Grid scope: combines the parts of a row's groups in every block that has one of them, while its
// warps work on other rows (rows/tile_scheduler.cuh). The warp that publishes a group's last part
// joins the parts and writes a message; one warp of each block receives the messages of the rows of
// which the block has groups.
//
// The receiving warp is what everybody waits for in the end. So it polls a row's messages before it
// joins those of the row before (docs/lab/softmax-grid-kernel.md#the-warp-that-receives).
#pragma once

#define _CG_LIMIT_INCLUDED_DEPENDENCIES  // docs/lab/softmax-kernel-budget.md#compile-time
#include <cooperative_groups.h>

#include "kernels_cuda/rows/flagged_word.cuh"
#include "kernels_cuda/rows/tile_scheduler.cuh"

namespace twinops {

template <class Part, class Row>
class GridScope {
 public:
  static constexpr int kOfLane = 4, kMostGroups = kOfLane * kWarp;  // of a row

  static constexpr std::size_t bytes() { return sizeof(Smem); }
  // Scratch memory for so many groups. Each group has a message of its own: blocks that have no row
  // in common may be any number of rows apart.
  static constexpr std::size_t scratch_bytes(std::size_t groups) {
    return groups * sizeof(FlaggedMessage<Part>);
  }

  __device__ GridScope(void* smem, const RoundRobinTiles& plan)
      : smem_(*static_cast<Smem*>(smem)), plan_(plan) {}

  // All threads of the grid. again: groups may come a second time.
  __device__ __forceinline__ void begin(bool again) const {
    if (threadIdx.x < kTurns) {
      smem_.came[threadIdx.x] = 0;
#if __CUDA_ARCH__ >= 900
      start_barrier(smem_.ready[threadIdx.x]);
#endif
    }
    for (int i = static_cast<int>(threadIdx.x); i < plan_.own();
         i += static_cast<int>(blockDim.x)) {
      message(plan_.group(i)).clear();
      if (again) message(plan_.all() + plan_.group(i)).clear();
    }
    const unsigned token = cooperative_groups::this_grid().barrier_arrive();
    if (threadIdx.x == 0) smem_.token = token;
  }
  // All threads of a block, once, before one of them polls: after it all messages of the grid are
  // cleared.
  __device__ __forceinline__ void wait_for_grid() const {
    cooperative_groups::this_grid().barrier_wait(static_cast<unsigned>(smem_.token));
  }

  // All lanes of the warp that has the chunk, of own group i; groups that come a second time are
  // counted on. `at`: the group's message. (compute-sanitizer's racecheck does not follow the
  // atomic counter, and calls the parts that are read after it a hazard.)
  template <class Join>
  __device__ __forceinline__ void publish(int i, int at, int chunk, Part part, Join&& join) const {
    int before = 0;
    if (reload_lane() == 0) {
      smem_.parts[side(i)][chunk] = part;
      __threadfence_block();
      before = atomicAdd(&smem_.came[side(i)], 1);
    }
    if (__shfl_sync(kAllLanes, before, 0) != RoundRobinTiles::kChunks - 1) return;
    __threadfence_block();
    const Part all = join(smem_.parts[side(i)], RoundRobinTiles::kChunks);
    if (reload_lane() != 0) return;
    smem_.came[side(i)] = 0;
    message(at).write(0, all);
  }
  // Waits for the result of own group i's row.
  __device__ __forceinline__ Row row(int i) const {
#if __CUDA_ARCH__ >= 900
    wait_for_phase(shared_address(&smem_.ready[side(i)]), i / kTurns & 1);
#endif
    return smem_.rows[side(i)];
  }

  // Messages of a row that a warp has polled, kOfLane a lane. first: the row's first message.
  struct Inbox {
    FlaggedMessage<Part> messages[kOfLane];
  };
  __device__ __forceinline__ void poll(int first, Inbox& inbox) const {
    const int last = plan_.groups - 1, lane = reload_lane();
#pragma unroll
    for (int k = 0; k < kOfLane; ++k)
      if (k * kWarp <= last)
        inbox.messages[k] = message(first + min(lane + k * kWarp, last)).load();
  }
  // All lanes of the warp that polled: waits for the messages, makes a Row of them and hands it to
  // the block's other warps, for own group i. then() is called when the messages have arrived.
  template <class Then, class Join, class Finish>
  __device__ __forceinline__ Row receive(int i, int first, Inbox& inbox, Then&& then, Join&& join,
                                         Finish&& finish) const {
    const int last = plan_.groups - 1, lane = reload_lane();
    while (true) {
      bool there = true;
#pragma unroll
      for (int k = 0; k < kOfLane; ++k)
        if (k * kWarp <= last) there &= inbox.messages[k].has_arrived(0);
      if (__all_sync(kAllLanes, there)) break;
      poll(first, inbox);
    }
#pragma unroll
    for (int k = 0; k < kOfLane; ++k)
      if (lane + k * kWarp <= last) smem_.groups[lane + k * kWarp] = inbox.messages[k].payload();
    __syncwarp();
    then();
    const Row made = finish(join(smem_.groups, plan_.groups));
    __syncwarp();
    if (lane == 0) {
      smem_.rows[side(i)] = made;
#if __CUDA_ARCH__ >= 900
      arrive(shared_address(&smem_.ready[side(i)]));
#endif
    }
    return made;
  }

 private:
  // How many own groups the block may be busy with, a power of two. A warp that is behind holds the
  // others up when they have gone twice through the block's warps.
  static constexpr int kTurns = 16;
  struct alignas(16) Smem {
    std::uint64_t ready[kTurns];
    Row rows[kTurns];
    Part parts[kTurns][RoundRobinTiles::kChunks], groups[kMostGroups];
    int came[kTurns];  // parts that a group has
    unsigned token;
  };

  __device__ __forceinline__ static int side(int i) { return i & (kTurns - 1); }
  __device__ __forceinline__ FlaggedMessage<Part>& message(int i) const {
    return static_cast<FlaggedMessage<Part>*>(plan_.messages)[i];
  }

  Smem& smem_;
  const RoundRobinTiles& plan_;
};

}  // namespace twinops
