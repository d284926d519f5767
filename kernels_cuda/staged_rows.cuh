// Short rows that lie side by side without a gap, on their way through a block's shared memory.
// What travels is 16 bytes at a time whatever the rows' length, and lanes take their elements from
// there one by one: a row needs no packs, edges or shuffles of its own.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "kernels_cuda/row_plan.cuh"
#include "kernels_cuda/row_share.cuh"
#include "operators/softmax_rows.hpp"
#include "operators/types.hpp"

namespace twinops {

// `count` elements that one block works on. They lie in shared memory as they do in global memory,
// from a multiple of 16 bytes on.
template <class T>
class StagedRows {
 public:
  static constexpr std::size_t bytes(std::size_t count) {
    return (count + 2 * (kPack - 1)) * sizeof(T) / 16 * 16;
  }

  __device__ __forceinline__ StagedRows(void* memory, const T* from, int count)
      : count_(count),
        shift_(static_cast<int>(reinterpret_cast<std::uintptr_t>(from) / sizeof(T) % kPack)),
        elements_(static_cast<T*>(memory) + shift_) {}

  __device__ __forceinline__ T* elements() const { return elements_; }
  // All threads of the block; every one may then read and write every element.
  __device__ __forceinline__ void fetch(const T* from) const {
    copy(elements_, from, [](T* to, const T* pack) { __pipeline_memcpy_async(to, pack, 16); });
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  // All threads, once they have written. To memory that is aligned as that they came from.
  __device__ __forceinline__ void store(T* to) const {
    __syncthreads();
    copy(to, elements_, [](T* pack, const T* from) {
      *reinterpret_cast<uint4*>(pack) = *reinterpret_cast<const uint4*>(from);
    });
  }

 private:
  static constexpr int kPack = 16 / sizeof(T);

  // Whole packs by copy_pack, the edges' elements one by one.
  template <class CopyPack>
  __device__ __forceinline__ void copy(T* to, const T* from, CopyPack&& copy_pack) const {
    const int head = min(count_, (kPack - shift_) % kPack), packs = (count_ - head) / kPack;
    for (int i = threadIdx.x; i < packs; i += kShortThreads)
      copy_pack(to + head + i * kPack, from + head + i * kPack);
    const int edge = threadIdx.x < kPack
                         ? static_cast<int>(threadIdx.x)
                         : head + packs * kPack + static_cast<int>(threadIdx.x) - kPack;
    if (edge < (threadIdx.x < kPack ? head : count_)) to[edge] = from[edge];
  }

  int count_, shift_;
  T* elements_;
};

// Calls launch(TypeTag<Share>) with how a row of `length` lies in lanes: one up to 48 elements, two
// up to kMostStaged, whose share is the fewest of a multiple of four that hold it.
inline constexpr int kMostStaged = 104;
template <int G, int R, class Launch>
void with_staged_elements(int length, Launch&& launch) {
  constexpr int kMost = G == 1 ? 48 : kMostStaged;
  if constexpr (G * R < kMost)
    if (length > G * R) return with_staged_elements<G, R + 4>(length, launch);
  launch(TypeTag<Share<G, R, 1, false>>());
}
template <class Launch>
void with_staged_share(int length, Launch&& launch) {
  length <= 48 ? with_staged_elements<1, 4>(length, launch)
               : with_staged_elements<2, 28>(length, launch);
}

// The rows of a block, and which of them this thread has a share of. Those of a warp are two apart,
// so that of rows of an odd length no two lanes meet in a bank.
template <int G>
inline constexpr int kStagedRows = kShortThreads / G;
template <int G>
__device__ __forceinline__ int staged_row() {
  constexpr int kOfWarp = kWarp / G;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  return warp / 2 * 2 * kOfWarp + lane / G * 2 + warp % 2;
}

// Whether rows of every operand lie side by side.
template <int N>
bool have_no_gaps(const Rows<N>& rows) {
  if (rows.outer.rank > 1) return false;
  for (int k = 0; k < N; ++k)
    if (rows.step[k] != 1 || (rows.outer.rank == 1 && rows.outer.stride[k][0] != rows.length))
      return false;
  return true;
}

}  // namespace twinops
