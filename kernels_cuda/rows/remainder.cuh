// Remainders: what is left of a row after its whole chunks. A warp with the code of a whole chunk
// spends as many instructions on one element as on a thousand, and every warp asks of every vector
// whether it is whole. So simple rows of 16 bits have two other ways: a warp of its own with code
// of its own, in rows of a block each (softmax/block_kernel.cuh), and, of rows of two chunks, the
// same warp, element by element (softmax/two_chunk_kernel.cuh). What was measured and tried:
// docs/lab/softmax-block-kernel.md#remainders.
#pragma once

#include "kernels_cuda/rows/lane_io.cuh"
#include "operators/types.hpp"

namespace twinops {

// A warp's fragment of kOfLane elements a lane, one by one.
template <int kOfLane>
using ElementFragment = LaneFragment<kWarp, kOfLane, 1, false>;

// Calls launch(TypeTag<ElementFragment>) with the first of the counts that holds `left` elements;
// false if none does.
template <int kCount, int... kMore, class Launch>
bool with_elements(int left, Launch&& launch) {
  if (left <= kCount * kWarp) {
    launch(TypeTag<ElementFragment<kCount>>());
    return true;
  }
  if constexpr (sizeof...(kMore) > 0) return with_elements<kMore...>(left, launch);
  return false;
}

// This thread's warp, where warps go different ways: by a shuffle, so that the compiler knows that
// all lanes of a warp go the same way.
__device__ __forceinline__ int warp_of_all_lanes() {
  return __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / kWarp), 0);
}
__device__ __forceinline__ bool is_last_warp(int warp) {
  return warp == static_cast<int>(blockDim.x / kWarp) - 1;
}

// A barrier of the block. kTwoBodies: its last warp may be elsewhere in the code.
template <bool kTwoBodies>
__device__ __forceinline__ void sync_row() {
  if constexpr (kTwoBodies)
    sync_from_anywhere(blockDim.x);
  else
    __syncthreads();
}

}  // namespace twinops
