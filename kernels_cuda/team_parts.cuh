// The parts of a row's chunks, brought together in every block of the team that works on the row:
// blocks that are no cluster and meet in global memory, all of the grid resident at once. A meeting
// takes longer than a cluster's, but a team may be of any size and on any multiprocessors: of
// clusters of 16 blocks an H200 holds seven, on 112 of its 132.
//
// A block joins its own chunks first, so that one part a block travels, as a letter. Each 64 bits
// of a letter are stored and loaded at once and hold 32 of the part and the turn that it is of:
// they are their own proof that they came, so there is nothing to count and no fence.
//
// Tried and left: the next row's weights before this row's parts are there, which takes 16 % more
// instructions and spills registers (float16 softmax at 2^20 0.65 in place of 0.68; its logarithm
// 0.69 in place of 0.67); teams that begin out of step (no gain); the next row on its way to L2
// while the parts travel (float16 softmax 0.67 to 0.68, the gradients 0.79 to 0.73).
#pragma once

#include <cooperative_groups.h>

#include "kernels_cuda/row_parts.cuh"

namespace twinops {

// A launch is blocks of a team by teams, in blocks with two chunks a warp.
template <class Part, class Row>
class TeamParts {
 public:
  static constexpr int kWords = sizeof(Part) / 4;
  static_assert(sizeof(Part) == 4 || sizeof(Part) == 8);
  static constexpr int kMost = 2 * kWarp;  // chunks of a block, and blocks of a team
  struct alignas(8 * kWords) Letter {
    unsigned long long words[kWords];
  };

  __host__ __device__ static constexpr int bytes(int) { return sizeof(Memory); }
  static constexpr std::size_t board_bytes(std::size_t blocks) {
    return 2 * sizeof(Letter) * blocks;
  }

  __device__ static int block_of_row(const ChunkRows&) { return static_cast<int>(blockIdx.x); }
  __device__ static int first_row(const ChunkRows&) { return static_cast<int>(blockIdx.y); }
  __device__ static int rows_at_once(const ChunkRows&) { return static_cast<int>(gridDim.y); }

  // plan.board: of all blocks.
  __device__ TeamParts(void* memory, const ChunkRows& plan)
      : memory_(*static_cast<Memory*>(memory)), plan_(plan) {}

  // All threads of the grid, before the first part is brought.
  __device__ __forceinline__ void begin() {
    if (threadIdx.x < 2 * kWords)
      letters(threadIdx.x / kWords)[blockIdx.x].words[threadIdx.x % kWords] = 0;
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
      if (lane_anew() == 0) send(letters(turn & 1) + blockIdx.x, turn, part);
      receive(letters(turn & 1), turn);
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
  struct Words {
    std::uint32_t of[kWords];
  };

  __device__ __forceinline__ int of_block() const { return 2 * plan_.warps; }
  __device__ __forceinline__ Letter* letters(int side) const {
    return static_cast<Letter*>(plan_.board) + (2 * blockIdx.y + side) * gridDim.x;
  }

  __device__ __forceinline__ static void send(Letter* to, int turn, Part part) {
    const Words words = bit_cast<Words>(part);
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to->words + i),
                   "l"(static_cast<unsigned long long>(turn + 1) << 32 | words.of[i])
                   : "memory");
  }
  // A lane asks for two letters at once.
  __device__ __forceinline__ void receive(const Letter* from, int turn) const {
    const int last = static_cast<int>(gridDim.x) - 1;
    const int i = lane_anew(), j = i + kWarp;
    Part first, second;
    bool there = false;
    while (!there) {
      there = read(from + min(i, last), turn, first);
      there &= read(from + min(j, last), turn, second);
    }
    if (i <= last) memory_.blocks[i] = first;
    if (j <= last) memory_.blocks[j] = second;
    __syncwarp();
  }
  __device__ __forceinline__ static bool read(const Letter* from, int turn, Part& part) {
    Letter letter;
    if constexpr (kWords == 1)
      asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];"
                   : "=l"(letter.words[0])
                   : "l"(from)
                   : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                   : "=l"(letter.words[0]), "=l"(letter.words[1])
                   : "l"(from)
                   : "memory");
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

  Memory& memory_;
  const ChunkRows& plan_;
};

}  // namespace twinops
