// Chunks that wait in shared memory for what is to become of them.
#pragma once

#include "kernels_cuda/rows/lane_io.cuh"
#include "numerics/fold.hpp"

namespace twinops {

// A warp's shared memory: a chunk as it is fetched, then what it waits as. A lane meets its own
// places only.
template <class In, class S>
struct WaitingChunk {
  using F = compute_t<In>;
  static constexpr int kOfPack = 16 / static_cast<int>(sizeof(F));
  static constexpr int kOfWarp = kFoldChunk / kOfPack + 1;  // packs

  static constexpr std::size_t bytes(std::size_t warps) { return warps * kOfWarp * sizeof(uint4); }

  __device__ explicit WaitingChunk(void* memory)
      : lane_(static_cast<uint4*>(memory) + threadIdx.x / kWarp * kOfWarp + threadIdx.x % kWarp) {}

  // Of 16-bit types, memory for a pack of a warp beyond what waits, as many packs on as a lane is.
  __device__ __forceinline__ auto beyond() const {
    if constexpr (sizeof(In) == 2)
      return lane_ + (kOfWarp - 1);
    else
      return nullptr;
  }

  __device__ __forceinline__ void put(const F (&x)[S::kElements]) const {
#pragma unroll
    for (int i = 0; i < S::kElements; i += kOfPack) {
      Of of;
#pragma unroll
      for (int e = 0; e < kOfPack; ++e) of.x[e] = x[i + e];
      lane_[i / kOfPack * kWarp] = bit_cast<uint4>(of);
    }
  }
  __device__ __forceinline__ void get(F (&x)[S::kElements]) const {
#pragma unroll
    for (int i = 0; i < S::kElements; i += kOfPack) {
      const Of of = bit_cast<Of>(lane_[i / kOfPack * kWarp]);
#pragma unroll
      for (int e = 0; e < kOfPack; ++e) x[i + e] = of.x[e];
    }
  }
  // Of pack p.
  template <int V>
  __device__ __forceinline__ void get_pack(int p, F (&y)[V]) const {
#pragma unroll
    for (int i = 0; i < V; i += kOfPack) {
      const Of of = bit_cast<Of>(lane_[(p * V + i) / kOfPack * kWarp]);
#pragma unroll
      for (int e = 0; e < kOfPack; ++e) y[i + e] = of.x[e];
    }
  }

 private:
  struct alignas(16) Of {
    F x[kOfPack];
  };
  uint4* lane_;
};

}  // namespace twinops
