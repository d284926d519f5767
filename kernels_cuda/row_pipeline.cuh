// The next row on its way to shared memory while this one is worked on. A lane fetches what it will
// read itself, so that nobody else waits for it.
#pragma once

#include "kernels_cuda/row_lanes.cuh"

namespace twinops {

// Memory of a block, for chunks of R packs a lane: one pack of every thread after the other.
template <class T, int V, int R>
class NextChunk {
 public:
  static constexpr std::size_t kBytes = 16 * R;  // of a thread

  __device__ NextChunk(void* memory, int threads)
      : mine_(static_cast<Pack<T, V>*>(memory) + threadIdx.x), threads_(threads) {}

  // Sends for a lane's share of the chunk at `from`, `left` elements of which are the row's.
  __device__ __forceinline__ void fetch(const T* from, int left, int lane) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int j = (r * kWarp + lane) * V;
      if (j >= left) continue;
#if __CUDA_ARCH__ >= 800
      const auto to = static_cast<unsigned>(__cvta_generic_to_shared(mine_ + r * threads_));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from + j) : "memory");
#else
      mine_[r * threads_] = read_pack<T, V>(from + j);
#endif
    }
  }
  __device__ __forceinline__ static void wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }
  __device__ __forceinline__ Pack<T, V> take(int r) const { return mine_[r * threads_]; }

 private:
  Pack<T, V>* mine_;
  int threads_;
};

}  // namespace twinops
