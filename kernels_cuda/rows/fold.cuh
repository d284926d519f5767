// Sums and maxima of the softmax family over registers, lanes and places in a vector, in the order
// of docs/numerics.md#3-sums.
//
// A fold by halves adds elements at half of the length's distance, so rotating them by any number
// of places gives the same pairs, and the same bits.
#pragma once

#include "kernels_cuda/common/vector_io.cuh"
#include "numerics/fold.hpp"
#include "numerics/softmax.hpp"

namespace twinops {

constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }
constexpr int half_of(int count) {  // the greatest power of two below it
  int half = 1;
  while (2 * half < count) half *= 2;
  return half;
}

// Folds s[0..kCount) until kUntil values are left. kCount counts as the next power of two, whose
// missing values are +0. It is a recursion: the compiler does not unroll a loop whose inner loop
// halves, and s would live in local memory, which costs half of the copy rate.
template <int kCount, int kUntil, class F>
__device__ __forceinline__ void fold_places(F* s) {
  if constexpr (kCount > kUntil) {
    constexpr int kHalf = half_of(kCount);
#pragma unroll
    for (int i = 0; i < kCount - kHalf; ++i) s[i] = s[i] + s[i + kHalf];
    fold_places<kHalf, kUntil>(s);
  }
}

// The sum over R vectors of V values in each of G neighbouring lanes. Element (r * G + lane) * V +
// e is s[r * V + e], and +0 where R is no power of two and a vector is missing. The fold goes from
// the top bit of the index down: registers first (fold_places, to V values), then lanes, then
// places in a vector.
//
// This is what comes after the registers. At each step a lane hands over half of its places, so
// that no sum is made twice; at the end every lane has the result.
template <int G, int V, class F>
__device__ __forceinline__ F fold_over_lanes(F (&s)[V]) {
  constexpr int kHandOvers = log2_of(G < V ? G : V), kLeft = V >> kHandOvers;
#pragma unroll
  for (int k = 0; k < log2_of(G); ++k) {
    const unsigned mask = G >> (k + 1);
    if (k < kHandOvers) {
      const int keep = V >> (k + 1);
      const bool upper = (threadIdx.x & mask) != 0;
#pragma unroll
      for (int e = 0; e < keep; ++e) {
        const F mine = upper ? s[e + keep] : s[e], theirs = upper ? s[e] : s[e + keep];
        s[e] = mine + __shfl_xor_sync(kAllLanes, theirs, mask);
      }
    } else {
#pragma unroll
      for (int e = 0; e < kLeft; ++e) s[e] = s[e] + __shfl_xor_sync(kAllLanes, s[e], mask);
    }
  }
#pragma unroll
  for (int k = 0; k < kHandOvers; ++k)
#pragma unroll
    for (int e = 0; e < kLeft; ++e) s[e] = s[e] + __shfl_xor_sync(kAllLanes, s[e], G / 2 >> k);
  fold_places<kLeft, 1>(s);
  return s[0];
}
template <int G, int R, int V, class F>
__device__ __forceinline__ F fold_lanes(F (&values)[R * V]) {
  fold_places<R * V, V>(values);
  F s[V];
#pragma unroll
  for (int e = 0; e < V; ++e) s[e] = values[e];
  return fold_over_lanes<G>(s);
}

// The sum of a chunk in shared memory, which it overwrites: by all lanes of a warp.
template <class F>
__device__ __forceinline__ F fold_in_memory(F* s) {
#pragma unroll 1
  for (int half = kFoldChunk / 2; half > 0; half /= 2) {
    __syncwarp();
    for (int j = static_cast<int>(threadIdx.x % kWarp); j < half; j += kWarp)
      s[j] = s[j] + s[j + half];
  }
  __syncwarp();
  const F sum = s[0];
  __syncwarp();
  return sum;
}

// The tree of neighbours over the lanes of a warp; every lane has the result.
template <class F>
__device__ __forceinline__ F fold_neighbours(F sum) {
#pragma unroll
  for (int k = 0; k < log2_of(kWarp); ++k) sum = sum + __shfl_xor_sync(kAllLanes, sum, 1 << k);
  return sum;
}

// The greater of two, NaN if either is.
__device__ __forceinline__ float greatest_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  return max_nan(a, b);
#else
  return greatest(a, b);
#endif
}
__device__ __forceinline__ double greatest_or_nan(double a, double b) { return greatest(a, b); }

// Where it can, it compares integers of the same order: one instruction in place of five shuffles.
template <int G, class F>
__device__ __forceinline__ F greatest_of_lanes(F max) {
#if __CUDA_ARCH__ >= 800
  constexpr bool kByIntegers = G == kWarp && sizeof(F) == 4;
#else
  constexpr bool kByIntegers = false;
#endif
  if constexpr (kByIntegers) {
    const auto ordered = [](int bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
    return __int_as_float(ordered(__reduce_max_sync(kAllLanes, ordered(__float_as_int(max)))));
  } else {
#pragma unroll
    for (int k = 1; k <= log2_of(G); ++k)
      max = greatest_or_nan(max, __shfl_xor_sync(kAllLanes, max, G >> k));
    return max;
  }
}

}  // namespace twinops
