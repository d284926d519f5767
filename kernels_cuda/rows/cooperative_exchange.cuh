// Where the blocks of a team meet. A team works on a row: blocks that are no cluster, all of the
// grid resident at once. A meeting takes longer than a cluster's, but a team may be of any size and
// on any multiprocessors: of clusters of 16 blocks an H200 holds seven, on 112 of its 132.
#pragma once

#include "kernels_cuda/rows/cluster_scope.cuh"
#include "kernels_cuda/rows/flagged_word.cuh"

namespace twinops {

// The letters of a grid of teams: blockIdx.x is the block of a team, blockIdx.y the team. Those of
// two turns are there at a time.
template <class Part>
class CooperativeExchange {
 public:
  static constexpr std::size_t bytes(std::size_t blocks) {
    return kSides * sizeof(FlaggedMessage<Part>) * blocks;
  }
  __device__ __forceinline__ explicit CooperativeExchange(void* memory)
      : messages_(static_cast<FlaggedMessage<Part>*>(memory)) {}

  // All threads of the grid, before they meet at its barrier.
  __device__ __forceinline__ void clear() const {
    if (threadIdx.x < kSides) messages(threadIdx.x)[blockIdx.x].clear();
  }
  // One lane.
  __device__ __forceinline__ void send(int turn, Part part) const {
    messages(turn)[blockIdx.x].write(turn, part);
  }
  // All lanes of a warp: waits for the team's parts of a turn, up to 2 * kWarp of them, and leaves
  // them in shared memory. A lane asks for two letters at once.
  __device__ __forceinline__ void receive(int turn, Part* parts) const {
    const FlaggedMessage<Part>* const from = messages(turn);
    const int last = static_cast<int>(gridDim.x) - 1;
    const int i = reload_lane(), j = i + kWarp;
    FlaggedMessage<Part> first, second;
    do {
      first = from[min(i, last)].load();
      second = from[min(j, last)].load();
    } while (!first.has_arrived(turn) || !second.has_arrived(turn));
    if (i <= last) parts[i] = first.payload();
    if (j <= last) parts[j] = second.payload();
    __syncwarp();
  }

 private:
  static constexpr int kSides = 2;
  __device__ __forceinline__ FlaggedMessage<Part>* messages(int turn) const {
    return messages_ + (kSides * blockIdx.y + (turn & (kSides - 1))) * gridDim.x;
  }

  FlaggedMessage<Part>* messages_;
};

}  // namespace twinops
