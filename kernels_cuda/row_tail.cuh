// What is left of a row after its whole chunks, where the last chunk's warp takes it along, an
// element or two a lane: a warp of its own spends as many instructions on one element as on a whole
// chunk. Float16, share of the copy rate, softmax and log_softmax with a warp of its own and so:
// 2049 columns 0.75 and 0.71, 0.89 and 0.87; 3100 0.83 and 0.79, 0.89 and 0.88; 8193 0.83 and 0.81,
// 0.90 and 0.88. (The logarithm's kernel of the same source has 0.92 to 0.94 where the compiler
// meets fewer other kernels with it.)
//
// Tried and left: packs of 16 bytes (2500 columns 0.84 to 0.72, by spills); one element a lane, for
// up to 32 (4100 0.92 to 0.80, though it is less to do); four, for up to 128 (2049 0.90 to 0.85).
#pragma once

#include "kernels_cuda/row_share.cuh"

namespace twinops {

using TailShare = Share<kWarp, 2, 1, false>;

// The whole chunks of a row that has a tail; else 0.
inline int chunks_before_tail(std::int64_t length) {
  const std::int64_t left = length % kFoldChunk;
  return left > 0 && left <= TailShare::kSlots ? static_cast<int>(length / kFoldChunk) : 0;
}

// What an operator's tail begins with.
template <class In>
class RowTail {
 public:
  // mine: this warp takes it along. left: of a row, for that warp.
  __device__ __forceinline__ RowTail(int left, int lane, bool mine)
      : share_(static_cast<const In*>(nullptr), left, lane), mine_(mine) {}

 protected:
  TailShare share_;
  bool mine_;
};

// Of rows that have none.
struct NoTail {
  __device__ __forceinline__ NoTail(int, int, bool) {}
  template <class... Args>
  __device__ __forceinline__ void load(const Args&...) const {}
  template <bool kLog, class... Args>
  __device__ __forceinline__ void bring(const Args&...) const {}
  template <bool kLog, class... Args>
  __device__ __forceinline__ void store(const Args&...) const {}
};

template <bool kTail, class Tail>
using TailIf = std::conditional_t<kTail, Tail, NoTail>;

}  // namespace twinops
