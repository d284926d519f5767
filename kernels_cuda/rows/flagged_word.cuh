// Messages between blocks of a grid, through global memory.
#pragma once

#include "kernels_cuda/rows/fold.cuh"

namespace twinops {

// A message of 64 or 128 bits. Each 64 bits are stored and loaded at once and hold 32 bits of the
// payload and the turn, plus one, as a flag. So a reader sees by the word itself that it has
// arrived: there is no counter and no fence.
template <class T>
class alignas(2 * sizeof(T)) FlaggedMessage {
 public:
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);

  // One lane.
  __device__ __forceinline__ void write(int turn, T payload) {
    const Words words = bit_cast<Words>(payload);
#pragma unroll
    for (int i = 0; i < kWords; ++i) write_relaxed(words_ + i, flag(turn) << 32 | words.of[i]);
  }
  // The message as it is now.
  __device__ __forceinline__ FlaggedMessage load() const {
    FlaggedMessage message;
    read_relaxed(this, message.words_);
    return message;
  }
  // Whether a loaded message is one of this turn.
  __device__ __forceinline__ bool has_arrived(int turn) const {
    bool is = true;
#pragma unroll
    for (int i = 0; i < kWords; ++i) is &= words_[i] >> 32 == flag(turn);
    return is;
  }
  __device__ __forceinline__ T payload() const {
    Words words;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words.of[i] = static_cast<std::uint32_t>(words_[i]);
    return bit_cast<T>(words);
  }
  // Sets all bits to 0, which is a message of no turn.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words_[i] = 0;
  }

 private:
  static constexpr int kWords = sizeof(T) / 4;
  struct Words {
    std::uint32_t of[kWords];
  };
  __device__ __forceinline__ static unsigned long long flag(int turn) {
    return static_cast<unsigned>(turn + 1);
  }

  unsigned long long words_[kWords];
};

}  // namespace twinops
