// What is left of a row after its whole chunks, where a block is alone with the row. A warp of its
// own, by the same code as the others, spends as many instructions on one element as on a whole
// chunk, and every warp asks of every pack whether it is whole; so there are two other ways.
//
// Apart: a warp of its own with code of its own, with no packs for what is empty, and the others'
// code knows that their chunks are whole. Share of the copy rate, alike and so, 16-bit rows that
// begin anywhere: softmax of float16 at 2148 columns 0.80 and 0.84, 7169 0.87 and 0.93, log_softmax
// at 3172 0.82 and 0.87, of bfloat16 at 3172 0.77 and 0.86, 15 361 0.79 and 0.88, 16 361 0.85 and
// 0.91; log_softmax_grad of float16 at 10 540 0.75 and 0.90, 12 353 0.80 and 0.96. (Softmax of more
// than eight chunks has gone two chunks a warp since, and does better: softmax_launch.cuh.)
//
// Along: the last chunk's warp takes up to 64 elements along, one or two a lane. That is best where
// a warp more would cost a multiprocessor a block: float16 at 2049 columns alike, apart and so
// 0.78, 0.80 and 0.89, log_softmax 0.72, 0.78 and 0.90, at 8193 0.86, 0.86 and 0.91; at 9217 0.89,
// 0.89 and 0.84. In whole packs it loses but at two chunks (7208 columns 0.95, 0.96 and 0.81),
// backward it does not.
//
// Tried and left, along: packs of 16 bytes (2500 columns 0.84 to 0.72, by spills); one element a
// lane, for up to 32 (4100 0.92 to 0.80, though it is less to do); four, for up to 128 (2049 0.90
// to 0.85). Apart in clusters, where the next row is on its way meanwhile: their code is too long
// to have two of it (float16 at 24 553 0.85 to 0.74 with a chunk a warp, 0.80 with two; in whole
// packs 0.01 to 0.03 gained by bfloat16's log_softmax alone).
#pragma once

#include "kernels_cuda/row_share.cuh"

namespace twinops {

using TailShare = Share<kWarp, 2, 1, false>;

// How the last chunk of a row is taken whose block is alone with it.
enum class LastChunk {
  alike,  // as the others are
  apart,  // by a warp with code of its own; the others' chunks are whole
  along,  // by the warp of the last whole chunk
};

// Whether a multiprocessor has room for fewer blocks of one warp more.
inline bool costs_a_block(int warps) { return 32 / (warps + 1) < 32 / warps; }

// This thread's warp, where warps go different ways: by a shuffle, so that the compiler knows that
// all lanes of one go the same.
__device__ __forceinline__ int warp_of_all_lanes() {
  return __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / kWarp), 0);
}
__device__ __forceinline__ bool is_last_warp(int warp) {
  return warp == static_cast<int>(blockDim.x / kWarp) - 1;
}

// A barrier of the block, of which the last warp may be elsewhere in the code.
template <LastChunk kLast>
__device__ __forceinline__ void sync_row() {
  if constexpr (kLast == LastChunk::apart)
    sync_from_anywhere(blockDim.x);
  else
    __syncthreads();
}

// What an operator's tail begins with.
template <class In, class Tail>
class RowTail {
 public:
  // mine: this warp takes it along. left: of a row, for that warp.
  __device__ __forceinline__ RowTail(int left, int lane, bool mine)
      : share_(static_cast<const In*>(nullptr), left, lane), mine_(mine) {}

 protected:
  Tail share_;
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
