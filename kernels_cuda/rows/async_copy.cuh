// Chunks on their way to shared memory. A lane fetches what it will read itself, so that nobody
// else waits for it.
//
// Tried and left: one bulk copy a chunk (float32 at 65536 0.89 to 0.73 of the copy rate); 16-bit
// elements through L1 as well (float16 at 65536 0.79 to 0.77, at 262144 0.72 to 0.66); the packs of
// a chunk that is not full in a loop (a fifth less code of softmax_pair_kernel, no gain); what
// comes round put into lane 0's pack in shared memory by all lanes in gradients (0.90 to 0.82 at
// 28 701 columns of bfloat16) and float32 (0.90 to 0.73 at 65 537).
#pragma once

#include <cuda_pipeline_primitives.h>

#include "kernels_cuda/rows/lane_io.cuh"
#include "numerics/fold.hpp"

namespace twinops {

// Memory of a block, for chunks of a warp's share S: the packs of a warp together, and one for the
// elements that come round. A pack that is not all the row's comes with what else is in its 16
// bytes, as long as that is the tensor's or lies before it, which is in the same allocation; at the
// tensor's end elements come one by one.
template <class T, class S>
class NextChunk;
template <class T, int R, int V, bool kRagged>
class NextChunk<T, Share<kWarp, R, V, kRagged>> {
 public:
  using S = Share<kWarp, R, V, kRagged>;
  static constexpr int kOfWarp = R * kWarp + 1;  // packs
  static constexpr std::size_t bytes(std::size_t warps) {
    return warps * kOfWarp * sizeof(Pack<T, V>);
  }

  // of_warp: packs from one warp's place to the next one's.
  __device__ explicit NextChunk(void* memory, int of_warp = kOfWarp)
      : warps_(static_cast<Pack<T, V>*>(memory) + threadIdx.x / kWarp * of_warp) {}

  // Sends for a lane's share of the chunk at `from`, of a tensor that ends at `end`. left: of the
  // row, from there on.
  __device__ __forceinline__ void fetch(const S& share, const T* from, const T* end,
                                        int left) const {
    const T* const mine = from + share.place(0);
    if (share.full()) {  // which is most of them, in few instructions
      unrolled<R>([&](auto r) { copy<r>(mine); });
      if (kRagged && share.lane() == 0) {
        if (left >= S::kSlots + V)  // the pack is the row's, come round or not
          copy<R>(mine);
        else if (share.round_count() > 0)
          copy_part<R>(mine, share.round_count(), end);
      }
      return;
    }
    if (share.left() == 0) return;  // a chunk beyond the row, and perhaps beyond all memory
    unrolled<R>([&](auto r) {
      if (share.whole(r)) copy<r>(mine);
    });
    if constexpr (kRagged) {
      if (share.lane() == 0) {
        if (share.count(0) > 0) copy_part<0>(mine, share.count(0), end);
        if (share.round_count() > 0) copy_part<R>(mine, share.round_count(), end);
      }
      unrolled<R>([&](auto r) {
        if (!share.whole(r) && share.place(r) > 0 && share.count(r) > 0)
          copy_part<r>(mine, share.count(r), end);
      });
    }
  }
  // Waits for it; `pad` beyond the row. but_last: not for what was fetched after the last commit.
  // kByLanes: what comes round is put in place by all lanes.
  template <bool kByLanes>
  __device__ __forceinline__ void take(const S& share, T pad, Pack<T, V> (&packs)[R],
                                       bool but_last = false) const {
    if (but_last) {
      __pipeline_wait_prior(1);
    } else {
#if __CUDA_ARCH__ >= 800
      wait_for_copies();
#endif
    }
    if (share.full()) {
      if constexpr (kRagged && kByLanes) put_round(share);
#pragma unroll
      for (int r = 0; r < R; ++r) packs[r] = *place(r);
      if (kRagged && !kByLanes && share.lane() == 0 && share.round_count() > 0)
        packs[0] = first_of(*round_place(), packs[0], share.round_count());
      return;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) packs[r] = share.count(r) > 0 ? *place(r) : pack_of<T, V>(pad);
    if constexpr (kRagged) share.trim(*round_place(), pad, packs);
  }

 private:
  __device__ __forceinline__ Pack<T, V>* place(int r) const {
    return warps_ + r * kWarp + threadIdx.x % kWarp;
  }
  // Lane 0's pack R: what comes round.
  __device__ __forceinline__ Pack<T, V>* round_place() const { return warps_ + R * kWarp; }
  // All lanes: puts it before the first pack's own, an element a lane.
  __device__ __forceinline__ void put_round(const S& share) const {
    __syncwarp();
    if (const int lane = share.lane(); lane < share.round_count())
      reinterpret_cast<T*>(warps_)[lane] = reinterpret_cast<const T*>(round_place())[lane];
    __syncwarp();
  }
  // Pack r of a lane whose pack 0 is at `mine`.
  template <int r>
  __device__ __forceinline__ void copy(const T* mine) const {
#if __CUDA_ARCH__ >= 800
    copy_16_bytes_async<r * kWarp * 16, (sizeof(T) > 2)>(shared_address(place(0)), mine);
#else
    *place(r) = read_pack<T, V>(mine + r * S::kApart);
#endif
  }
  // The same of a pack of which `count` elements are wanted.
  template <int r>
  __device__ __forceinline__ void copy_part(const T* mine, int count, const T* end) const {
    if (mine + r * S::kApart + V <= end) return copy<r>(mine);
#pragma unroll 1
    for (int e = 0; e < count; ++e) reinterpret_cast<T*>(place(r))[e] = mine[r * S::kApart + e];
  }

  Pack<T, V>* warps_;
};

// All lanes: sends for a chunk of which `left` elements or more are the row's, to L2.
template <class T>
__device__ __forceinline__ void bring_to_l2(const T* at, int left) {
  constexpr int kOfLine = 128 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int begin = 0; begin < kFoldChunk; begin += kWarp * kOfLine) {
    const int i = begin + lane_anew() * kOfLine;
    if (i < min(left, kFoldChunk)) prefetch_line(at + i);
  }
}

}  // namespace twinops
