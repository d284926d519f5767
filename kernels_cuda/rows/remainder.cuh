// What is left of a row after its whole chunks, where a block is alone with the row. A warp of its
// own, by the same code as the others, spends as many instructions on one element as on a whole
// chunk, and every warp asks of every vector whether it is whole; so there are two other ways.
//
// Apart: a warp of its own with code of its own, with no registers for what is empty, and the
// others' code knows that their chunks are whole. Share of the copy rate on an H200, softmax and
// log_softmax, alike and so: bfloat16 at 3701 columns 0.92 and 0.98, 0.90 and 0.93, in whole
// vectors at 2304 0.91 and 1.01, 0.86 and 0.97; log_softmax_grad of float16 at 10 540 0.75 and
// 0.90, 12 353 0.80 and 0.96. (Softmax of more chunks goes two a warp, and does better:
// softmax/dispatch.cuh.)
//
// Along: the last whole chunk's warp takes it along, element by element. That is best beyond two
// whole chunks up to 128 elements, where they begin anywhere: apart and so float16 at 2113 columns
// 0.95 and 0.96, 0.90 and 0.92, bfloat16 at 2049 0.92 and 0.94, 0.88 and 0.91; at 3137 0.97 and
// 0.95, 0.93 and 0.92. Backward up to 64 elements, where a warp more would cost a multiprocessor a
// block, and in whole vectors of any row.
//
// In both, elements one by one are less work than the two edges of vectors that are few: apart,
// bfloat16 at 2305 columns in vectors 0.85 and 0.80, in elements 0.87 and 0.83, at 2561 0.85 and
// 0.82, 0.89 and 0.86.
//
// Tried and left, along: vectors of 16 bytes (2500 columns 0.84 to 0.72, by spills); 256 elements
// (float16 at 2190 0.94 to 0.93); the compiler told that all chunks are whole (bfloat16 at 2049
// 0.94 to 0.96, at 2112 0.96 to 0.81). Apart in clusters, where the next row is on its way
// meanwhile: their code is too long to have two of it (float16 at 24 553 0.85 to 0.74 with a chunk
// a warp, 0.80 with two; in whole vectors 0.01 to 0.03 gained by bfloat16's log_softmax alone).
#pragma once

#include "kernels_cuda/rows/lane_io.cuh"
#include "operators/types.hpp"

namespace twinops {

// A warp's share of so many elements a lane, one by one.
template <int kOfLane>
using ElementFragment = LaneFragment<kWarp, kOfLane, 1, false>;

// Calls launch(TypeTag<ElementFragment>) with the first count of 1, 2, 4, 8, 12 and so on, from
// kLeast to kMost, that has room for `left` elements; false if none has.
template <int kLeast, int kMost, class Launch>
bool with_elements(int left, Launch&& launch) {
  if (left <= kLeast * kWarp) {
    launch(TypeTag<ElementFragment<kLeast>>());
    return true;
  }
  constexpr int kNext = kLeast < 4 ? 2 * kLeast : kLeast + 4;
  if constexpr (kNext <= kMost) return with_elements<kNext, kMost>(left, launch);
  return false;
}

// How the last chunk of a row is taken whose block is alone with it.
enum class Remainder {
  vectors,   // as the others are
  own_warp,  // by a warp with code of its own; the others' chunks are whole
  appended,  // by the warp of the last whole chunk
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
template <Remainder kRemainder>
__device__ __forceinline__ void sync_row() {
  if constexpr (kRemainder == Remainder::own_warp)
    sync_from_anywhere(blockDim.x);
  else
    __syncthreads();
}

// What an operator's tail begins with; Tail: an ElementFragment.
template <class In, class RemainderFragment>
class RowRemainder {
 public:
  // mine: this warp takes it along. left: of a row, for that warp.
  __device__ __forceinline__ RowRemainder(int left, int lane, bool mine)
      : fragment_(static_cast<const In*>(nullptr), left, lane), mine_(mine) {}

 protected:
  RemainderFragment fragment_;
  bool mine_;
};

// Of rows that have none.
struct NoRemainder {
  __device__ __forceinline__ NoRemainder(int, int, bool) {}
  template <class... Args>
  __device__ __forceinline__ void load(const Args&...) const {}
  template <bool kLog, class... Args>
  __device__ __forceinline__ void publish(const Args&...) const {}
  template <bool kLog, class... Args>
  __device__ __forceinline__ void store(const Args&...) const {}
};

template <bool kAppended, class RemainderFragment>
using RemainderIf = std::conditional_t<kAppended, RemainderFragment, NoRemainder>;

}  // namespace twinops
