// Where the blocks of a team meet. A team works on a row: blocks that are no cluster, all of the
// grid resident at once. A meeting takes longer than a cluster's, but a team may be of any size and
// on any multiprocessors: of clusters of 16 blocks an H200 holds seven, on 112 of its 132.
//
// They meet in global memory, by letters. Each 64 bits of a letter are stored and loaded at once
// and hold 32 of a part and the turn that it is of: they are their own proof that they came, so
// there is nothing to count and no fence.
#pragma once

#include "kernels_cuda/row_parts.cuh"

namespace twinops {

// The letters of a grid of teams: blockIdx.x is the block of a team, blockIdx.y the team. Those of
// kSides turns, a power of two, are there at a time.
template <class Part, int kSides>
class TeamBoard {
 public:
  static constexpr std::size_t bytes(std::size_t blocks) {
    return kSides * sizeof(Letter) * blocks;
  }
  __device__ __forceinline__ explicit TeamBoard(void* memory)
      : letters_(static_cast<Letter*>(memory)) {}

  // All threads of the grid, before they meet at its barrier.
  __device__ __forceinline__ void clear() const {
    if (threadIdx.x < kSides * kWords)
      letters(threadIdx.x / kWords)[blockIdx.x].words[threadIdx.x % kWords] = 0;
  }
  // One lane.
  __device__ __forceinline__ void send(int turn, Part part) const {
    Letter* const to = letters(turn) + blockIdx.x;
    const Words words = bit_cast<Words>(part);
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      write_relaxed(to->words + i, static_cast<unsigned long long>(turn + 1) << 32 | words.of[i]);
  }
  // All lanes of a warp: waits for the team's parts of a turn, up to 2 * kWarp of them, and leaves
  // them in shared memory. A lane asks for two letters at once.
  __device__ __forceinline__ void receive(int turn, Part* parts) const {
    const Letter* const from = letters(turn);
    const int last = static_cast<int>(gridDim.x) - 1;
    const int i = lane_anew(), j = i + kWarp;
    Part first, second;
    bool there = false;
    while (!there) {
      there = read(from + min(i, last), turn, first);
      there &= read(from + min(j, last), turn, second);
    }
    if (i <= last) parts[i] = first;
    if (j <= last) parts[j] = second;
    __syncwarp();
  }

 private:
  static constexpr int kWords = sizeof(Part) / 4;
  static_assert(sizeof(Part) == 4 || sizeof(Part) == 8);
  struct alignas(8 * kWords) Letter {
    unsigned long long words[kWords];
  };
  struct Words {
    std::uint32_t of[kWords];
  };

  __device__ __forceinline__ Letter* letters(int turn) const {
    return letters_ + (kSides * blockIdx.y + (turn & (kSides - 1))) * gridDim.x;
  }
  __device__ __forceinline__ static bool read(const Letter* from, int turn, Part& part) {
    Letter letter;
    read_relaxed(from, letter.words);
    Words words;
    bool there = true;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words.of[i] = static_cast<std::uint32_t>(letter.words[i]);
      there &= letter.words[i] >> 32 == static_cast<unsigned>(turn + 1);
    }
    part = bit_cast<Part>(words);
    return there;
  }

  Letter* letters_;
};

}  // namespace twinops
