// What one thread of dropout's kernels owns at a time: a vector of eight elements of a 16-bit type,
// which has a whole byte of a bit mask, or of four elements of float32 or float64, whose
// neighbour's four bits come by a shuffle.
#pragma once

#include <cuda_runtime.h>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/common/ptx.cuh"
#include "numerics/dropout.hpp"

namespace twinops {

template <class T>
inline constexpr int kDropoutVectorElements = sizeof(T) == 2 ? 8 : 4;

template <class T>
struct DropoutVector {
  static constexpr int kElements = kDropoutVectorElements<T>;
  static constexpr int kWords = kElements * static_cast<int>(sizeof(T)) / 16;
  uint4 words[kWords];

  __device__ void load(const T* from, std::int64_t vector) {
#pragma unroll
    for (int k = 0; k < kWords; ++k)
      words[k] = reinterpret_cast<const uint4*>(from)[vector * kWords + k];
  }
  __device__ void store(T* to, std::int64_t vector) const {
#pragma unroll
    for (int k = 0; k < kWords; ++k) reinterpret_cast<uint4*>(to)[vector * kWords + k] = words[k];
  }
  __device__ void widen_to(compute_t<T> (&v)[kElements]) const {
    const T* elements = reinterpret_cast<const T*>(words);
#pragma unroll
    for (int j = 0; j < kElements; ++j) v[j] = widen(elements[j]);
  }
  __device__ void narrow_from(const compute_t<T> (&v)[kElements]);
};

template <class T>
__device__ void DropoutVector<T>::narrow_from(const compute_t<T> (&v)[kElements]) {
  if constexpr (sizeof(T) == 2) {
    words[0] = make_uint4(narrow_two<T>(v[0], v[1]), narrow_two<T>(v[2], v[3]),
                          narrow_two<T>(v[4], v[5]), narrow_two<T>(v[6], v[7]));
  } else {
    T* elements = reinterpret_cast<T*>(words);
#pragma unroll
    for (int j = 0; j < kElements; ++j) elements[j] = narrow<T>(v[j]);
  }
}

// Loads and stores the mask's bits of a vector's elements. `whole`: the vector has all its
// elements. Every thread of the warp calls store_vector_mask.
template <int kElements>
__device__ std::uint32_t load_vector_mask(const void* mask, bool bytes, std::int64_t vector) {
  if (!bytes) {
    const auto* m = static_cast<const std::uint8_t*>(mask);
    if (kElements == 8) return m[vector];
    return m[vector / 2] >> (vector % 2 * 4) & 15u;
  }
  if (kElements == 8) return mask_bits(static_cast<const std::uint64_t*>(mask)[vector]);
  return mask_bits(static_cast<const std::uint32_t*>(mask)[vector]);
}

template <int kElements, bool kBytes>
__device__ void store_vector_mask(void* mask, std::int64_t vector, bool whole, std::uint32_t bits) {
  if constexpr (kBytes) {
    if (!whole) return;
    const std::uint64_t ones = mask_bytes(bits);
    if (kElements == 8)
      static_cast<std::uint64_t*>(mask)[vector] = ones;
    else
      static_cast<std::uint32_t*>(mask)[vector] = static_cast<std::uint32_t>(ones);
  } else if (kElements == 8) {
    if (whole) static_cast<std::uint8_t*>(mask)[vector] = static_cast<std::uint8_t>(bits);
  } else {  // two lanes share a byte; both vectors are whole, or neither
    const std::uint32_t upper = __shfl_down_sync(~0u, bits, 1);
    if (whole && vector % 2 == 0)
      static_cast<std::uint8_t*>(mask)[vector / 2] = static_cast<std::uint8_t>(bits | upper << 4);
  }
}

}  // namespace twinops
