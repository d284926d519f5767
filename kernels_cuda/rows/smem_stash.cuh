// Chunks that wait in shared memory until their row's result is known.
#pragma once

#include "kernels_cuda/rows/lane_io.cuh"
#include "numerics/fold.hpp"

namespace twinops {

// A warp's shared memory: first a chunk as it is copied there, then what becomes of it. A lane
// reads and writes its own places only.
template <class In, class S>
struct SmemStash {
  using F = compute_t<In>;
  static constexpr int kOfVector = 16 / static_cast<int>(sizeof(F));
  static constexpr int kOfWarp = kFoldChunk / kOfVector + 1;  // vectors

  static constexpr std::size_t bytes(std::size_t warps) { return warps * kOfWarp * sizeof(uint4); }

  __device__ explicit SmemStash(void* smem)
      : lane_(static_cast<uint4*>(smem) + threadIdx.x / kWarp * kOfWarp + threadIdx.x % kWarp) {}

  // For 16-bit types: a vector of the warp beyond the stash, as many vectors on as the lane's
  // number.
  __device__ __forceinline__ auto scratch() const {
    if constexpr (sizeof(In) == 2)
      return lane_ + (kOfWarp - 1);
    else
      return nullptr;
  }

  __device__ __forceinline__ void put(const F (&x)[S::kElements]) const {
#pragma unroll
    for (int i = 0; i < S::kElements; i += kOfVector) {
      Of of;
#pragma unroll
      for (int e = 0; e < kOfVector; ++e) of.x[e] = x[i + e];
      lane_[i / kOfVector * kWarp] = bit_cast<uint4>(of);
    }
  }
  __device__ __forceinline__ void get(F (&x)[S::kElements]) const {
#pragma unroll
    for (int i = 0; i < S::kElements; i += kOfVector) {
      const Of of = bit_cast<Of>(lane_[i / kOfVector * kWarp]);
#pragma unroll
      for (int e = 0; e < kOfVector; ++e) x[i + e] = of.x[e];
    }
  }
  // Reads vector p.
  template <int V>
  __device__ __forceinline__ void get_vector(int p, F (&y)[V]) const {
#pragma unroll
    for (int i = 0; i < V; i += kOfVector) {
      const Of of = bit_cast<Of>(lane_[(p * V + i) / kOfVector * kWarp]);
#pragma unroll
      for (int e = 0; e < kOfVector; ++e) y[i + e] = of.x[e];
    }
  }

 private:
  struct alignas(16) Of {
    F x[kOfVector];
  };
  uint4* lane_;
};

}  // namespace twinops
