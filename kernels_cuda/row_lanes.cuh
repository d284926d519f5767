// Rows of the softmax family on lanes: how a row's elements lie in threads, how they are read and
// written, and the fold over registers, lanes and places in a vector.
#pragma once

#include <cstdint>

#include "numerics/float16.hpp"
#include "numerics/fold.hpp"
#include "operators/softmax_rows.hpp"

namespace twinops {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// V elements that move as one: 16 bytes, or one element.
template <class T, int V>
struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Pack {
  T v[V];
};

// Streaming reads and writes: a row is not looked at again, or while it is in the cache anyway.
template <class T, int V>
__device__ __forceinline__ Pack<T, V> read_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}
template <class T, int V>
__device__ __forceinline__ void write_pack(T* to, const Pack<T, V>& pack) {
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// V elements of a row from element j on. With V > 1 elements are next to each other.
template <int V, class T>
__device__ __forceinline__ void load_elements(const T* row, std::int64_t step, std::int64_t j,
                                              compute_t<T> (&x)[V]) {
  if constexpr (V == 1) {
    x[0] = widen(row[j * step]);
  } else {
    const Pack<T, V> pack = read_pack<T, V>(row + j);
#pragma unroll
    for (int e = 0; e < V; ++e) x[e] = widen(pack.v[e]);
  }
}
// y, stored as a T, where it is known to be no NaN.
template <class T>
__device__ __forceinline__ T narrow_number(compute_t<T> y) {
  if constexpr (sizeof(T) == sizeof(y))
    return y;
  else
    return narrow<T>(y);
}
template <int V, bool kNumbers = false, class T>
__device__ __forceinline__ void store_elements(T* row, std::int64_t step, std::int64_t j,
                                               const compute_t<T> (&y)[V]) {
  const auto narrowed = [](compute_t<T> v) {
    return kNumbers ? narrow_number<T>(v) : narrow<T>(v);
  };
  if constexpr (V == 1) {
    row[j * step] = narrowed(y[0]);
  } else {
    Pack<T, V> pack;
#pragma unroll
    for (int e = 0; e < V; ++e) pack.v[e] = narrowed(y[e]);
    write_pack<T, V>(row + j, pack);
  }
}

constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

// s[0..kCount) in half until kUntil values are left. A recursion: the compiler does not unroll a
// loop whose inner loop halves, and s then lives in local memory, which costs half of the copy rate.
template <int kCount, int kUntil, class F>
__device__ __forceinline__ void fold_places(F* s) {
  if constexpr (kCount > kUntil) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) s[i] = s[i] + s[i + kCount / 2];
    fold_places<kCount / 2, kUntil>(s);
  }
}

// The sum over R vectors of V values in each of G neighbouring lanes, element (r * G + lane) * V +
// e at s[r * V + e]: folded from the top index bit down, so registers first, then lanes, then
// places. Lanes hand over half of their places at a step, so that no sum is made twice; at the end
// every lane has the result.
template <int G, int R, int V, class F>
__device__ __forceinline__ F fold_lanes(const F (&values)[R * V]) {
  constexpr int kHandOvers = log2_of(G < V ? G : V), kLeft = V >> kHandOvers;
  F s[R * V];
#pragma unroll
  for (int i = 0; i < R * V; ++i) s[i] = values[i];
  fold_places<R * V, V>(s);
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
    for (int e = 0; e < kLeft; ++e)
      s[e] = s[e] + __shfl_xor_sync(kAllLanes, s[e], G / 2 >> k);
  fold_places<kLeft, 1>(s);
  return s[0];
}

// The greatest of two, NaN if either is.
__device__ __forceinline__ float greatest_or_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ double greatest_or_nan(double a, double b) {
  return a != a ? a : b <= a ? a : b;
}
template <int G, class F>
__device__ __forceinline__ F greatest_of_lanes(F max) {
#pragma unroll
  for (int k = 1; k <= log2_of(G); ++k)
    max = greatest_or_nan(max, __shfl_xor_sync(kAllLanes, max, G >> k));
  return max;
}

// Where row `row` of each operand begins.
template <int N>
struct RowStarts {
  std::int64_t of[N];
};
template <int N>
__device__ __forceinline__ RowStarts<N> row_starts(const Layout<N>& outer, std::int64_t row) {
  RowStarts<N> starts;
#pragma unroll
  for (int k = 0; k < N; ++k) starts.of[k] = 0;
  for (int axis = outer.rank - 1; axis > 0; --axis) {
    const std::int64_t index = row % outer.size[axis];
    row /= outer.size[axis];
#pragma unroll
    for (int k = 0; k < N; ++k) starts.of[k] += index * outer.stride[k][axis];
  }
  if (outer.rank > 0)
#pragma unroll
    for (int k = 0; k < N; ++k) starts.of[k] += row * outer.stride[k][0];
  return starts;
}

// Whether all rows of operand k begin, continue and end at multiples of V elements of 16 bytes.
template <int N>
inline bool packs_fit(const Rows<N>& rows, int k, const void* data, std::size_t element, int v) {
  const std::size_t bytes = element * v < 16 ? element * v : 16;
  if (rows.step[k] != 1 && rows.length != 1) return false;
  if (rows.length % v != 0 || reinterpret_cast<std::uintptr_t>(data) % bytes != 0) return false;
  for (int axis = 0; axis < rows.outer.rank; ++axis)
    if (rows.outer.stride[k][axis] * static_cast<std::int64_t>(element) %
            static_cast<std::int64_t>(bytes) !=
        0)
      return false;
  return true;
}

}  // namespace twinops
