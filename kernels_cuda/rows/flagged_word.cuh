// What blocks of a grid write to each other, through global memory.
#pragma once

#include "kernels_cuda/rows/fold.cuh"

namespace twinops {

// Each 64 bits of a letter are stored and loaded at once and hold 32 of what it says and the turn
// that it is of, plus one: they are their own proof that they came, so there is nothing to count
// and no fence.
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
  // As it is now.
  __device__ __forceinline__ FlaggedMessage load() const {
    FlaggedMessage message;
    read_relaxed(this, message.words_);
    return message;
  }
  // Of a letter that was looked at.
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
  // All 0, so that it is of no turn.
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
