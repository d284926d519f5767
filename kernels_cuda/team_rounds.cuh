// The rows that a team takes, one a turn: every so many, and in a second round those whose maximum
// was out of reach (RowKind::far), with elements from which it is taken.
#pragma once

#include "kernels_cuda/softmax_share.cuh"

namespace twinops {

// Each block notes for itself which rows come again. Of float16 none can (kHasFar).
//
// Tried and left: a row that comes again at once, or in a loop of its own after this one, inlined
// or not: the registers that takes are missing where rows are ordinary (bfloat16 logarithm at 2^19
// 0.76 to 0.58, 0.58 and 0.67).
template <class In, class F>
class TeamRounds {
 public:
  static constexpr bool kSecond = kHasFar<In>;
  // Shared memory, and global memory for blocks that take up to `turns` rows each.
  static constexpr std::size_t bytes() { return kSecond ? sizeof(Memory) : 0; }
  static constexpr std::size_t scratch_bytes(std::size_t blocks, std::size_t turns) {
    return kSecond ? blocks * turns * sizeof(Far) : 0;
  }

  __device__ TeamRounds(void* memory, void* far, int rows)
      : memory_(*static_cast<Memory*>(memory)), far_(static_cast<Far*>(far)), rows_(rows) {}

  // All threads, before a barrier.
  __device__ __forceinline__ void begin() const {
    if (kSecond && threadIdx.x == 0) memory_ = {0, 0, 0};
  }
  __device__ __forceinline__ bool is_second() const { return kSecond && memory_.begin != 0; }
  // Of a round: the row of a turn, or one beyond all rows, what is taken from its elements, and
  // whether the turn before was of a row.
  __device__ __forceinline__ int row(bool second, int turn) const {
    if (!second) return blockIdx.y + turn * static_cast<int>(gridDim.y);
    return turn - memory_.begin < memory_.rows ? far(turn - memory_.begin).row : rows_;
  }
  __device__ __forceinline__ F shift(bool second, int turn) const {
    return second ? far(turn - memory_.begin).max : F(0);
  }
  __device__ __forceinline__ bool had_row(bool second, int turn) const {
    return second ? turn > memory_.begin : turn > 0;
  }
  // All threads. Whether a row comes again.
  __device__ __forceinline__ bool note(int row, F max) const {
    if (!kSecond || kind_of_row(max) != RowKind::far) return false;
    if (threadIdx.x == 0) far(memory_.found++) = {row, max};
    return true;
  }
  // All threads. Begins a round at `turn`, if rows come again.
  __device__ __forceinline__ bool another(int turn) const {
    if (!kSecond) return false;
    __syncthreads();
    if (threadIdx.x == 0) memory_ = {turn, memory_.found, 0};
    __syncthreads();
    return memory_.rows > 0;
  }

 private:
  struct Far {
    int row;
    F max;
  };
  struct alignas(16) Memory {
    int begin, rows, found;  // the second round's first turn, how many rows it has, and the next
  };
  __device__ __forceinline__ Far& far(int i) const {
    const auto turns = (rows_ + gridDim.y - 1) / gridDim.y;
    return far_[(std::size_t{blockIdx.y} * gridDim.x + blockIdx.x) * turns + i];
  }

  Memory& memory_;
  Far* far_;
  int rows_;
};

}  // namespace twinops
