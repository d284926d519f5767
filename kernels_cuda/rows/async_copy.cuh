// Chunks that are copied to shared memory while their warp works on others. A lane fetches exactly
// what it will read itself, so no lane waits for another. Other ways that were tried:
// docs/lab/softmax-block-kernel.md#chunks-on-their-way-to-shared-memory.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "kernels_cuda/rows/lane_io.cuh"
#include "numerics/fold.hpp"

namespace twinops {

// A block's shared memory for one chunk a warp, in the layout of fragment S: a warp's vectors
// together, and one more for the elements that wrap round. A vector that belongs only partly to the
// row is copied with all its 16 bytes, if these lie before the tensor's end: what lies before the
// row is in the same allocation. At the tensor's end elements are copied one by one.
template <class T, class S>
class AsyncChunk;
template <class T, int R, int V, bool kUnaligned>
class AsyncChunk<T, LaneFragment<kWarp, R, V, kUnaligned>> {
 public:
  using S = LaneFragment<kWarp, R, V, kUnaligned>;
  static constexpr int kOfWarp = R * kWarp + 1;  // vectors
  static constexpr std::size_t bytes(std::size_t warps) {
    return warps * kOfWarp * sizeof(Vector<T, V>);
  }

  // of_warp: vectors from one warp's place to the next one's.
  __device__ explicit AsyncChunk(void* smem, int of_warp = kOfWarp)
      : warps_(static_cast<Vector<T, V>*>(smem) + threadIdx.x / kWarp * of_warp) {}

  // Starts the copy of a lane's fragment of the chunk at `from`, in a tensor that ends at `end`.
  // left: elements of the row from there on.
  __device__ __forceinline__ void fetch(const S& fragment, const T* from, const T* end,
                                        int left) const {
    const T* const mine = from + fragment.place(0);
    if (fragment.full()) {  // the usual case, in few instructions
      unrolled<R>([&](auto r) { copy<r>(mine); });
      if (kUnaligned && fragment.lane() == 0) {
        if (left >= S::kSlots + V)  // the whole vector is the row's
          copy<R>(mine);
        else if (fragment.wrapped_count() > 0)
          copy_part<R>(mine, fragment.wrapped_count(), end);
      }
      return;
    }
    if (fragment.left() == 0) return;  // a chunk beyond the row, and perhaps beyond all memory
    unrolled<R>([&](auto r) {
      if (fragment.whole(r)) copy<r>(mine);
    });
    if constexpr (kUnaligned) {
      if (fragment.lane() == 0) {
        if (fragment.count(0) > 0) copy_part<0>(mine, fragment.count(0), end);
        if (fragment.wrapped_count() > 0) copy_part<R>(mine, fragment.wrapped_count(), end);
      }
      unrolled<R>([&](auto r) {
        if (!fragment.whole(r) && fragment.place(r) > 0 && fragment.count(r) > 0)
          copy_part<r>(mine, fragment.count(r), end);
      });
    }
  }
  // Waits for the copy and reads it; `pad` stands for elements beyond the row. but_last: does not
  // wait for what was fetched after the last commit. kByLanes: all lanes together put the elements
  // that wrap round in place.
  template <bool kByLanes>
  __device__ __forceinline__ void take(const S& fragment, T pad, Vector<T, V> (&vectors)[R],
                                       bool but_last = false) const {
    if (but_last) {
      __pipeline_wait_prior(1);
    } else {
#if __CUDA_ARCH__ >= 800
      wait_for_copies();
#endif
    }
    if (fragment.full()) {
      if constexpr (kUnaligned && kByLanes) put_wrapped(fragment);
#pragma unroll
      for (int r = 0; r < R; ++r) vectors[r] = *place(r);
      if (kUnaligned && !kByLanes && fragment.lane() == 0 && fragment.wrapped_count() > 0)
        vectors[0] = splice(*wrapped_place(), vectors[0], fragment.wrapped_count());
      return;
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      vectors[r] = fragment.count(r) > 0 ? *place(r) : broadcast_vector<T, V>(pad);
    if constexpr (kUnaligned) fragment.trim(*wrapped_place(), pad, vectors);
  }

 private:
  __device__ __forceinline__ Vector<T, V>* place(int r) const {
    return warps_ + r * kWarp + threadIdx.x % kWarp;
  }
  // Lane 0's vector R: the elements that wrap round.
  __device__ __forceinline__ Vector<T, V>* wrapped_place() const { return warps_ + R * kWarp; }
  // All lanes: puts the elements that wrap round before the first vector's own, an element a lane.
  __device__ __forceinline__ void put_wrapped(const S& fragment) const {
    __syncwarp();
    if (const int lane = fragment.lane(); lane < fragment.wrapped_count())
      reinterpret_cast<T*>(warps_)[lane] = reinterpret_cast<const T*>(wrapped_place())[lane];
    __syncwarp();
  }
  // Copies vector r of a lane whose vector 0 is at `mine`.
  template <int r>
  __device__ __forceinline__ void copy(const T* mine) const {
#if __CUDA_ARCH__ >= 800
    copy_16_bytes_async<r * kWarp * 16, (sizeof(T) > 2)>(shared_address(place(0)), mine);
#else
    *place(r) = read_vector<T, V>(mine + r * S::kStride);
#endif
  }
  // The same for a vector of which `count` elements are the row's.
  template <int r>
  __device__ __forceinline__ void copy_part(const T* mine, int count, const T* end) const {
    if (mine + r * S::kStride + V <= end) return copy<r>(mine);
#pragma unroll 1
    for (int e = 0; e < count; ++e) reinterpret_cast<T*>(place(r))[e] = mine[r * S::kStride + e];
  }

  Vector<T, V>* warps_;
};

// All lanes: prefetches a chunk to L2, of which up to `left` elements are the row's.
template <class T>
__device__ __forceinline__ void prefetch_to_l2(const T* at, int left) {
  constexpr int kOfLine = 128 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int begin = 0; begin < kFoldChunk; begin += kWarp * kOfLine) {
    const int i = begin + reload_lane() * kOfLine;
    if (i < min(left, kFoldChunk)) prefetch_line(at + i);
  }
}

}  // namespace twinops
