// Rows of the softmax family on lanes: how a row's elements lie in threads, how they are read and
// written, and the fold over registers, lanes and places in a vector.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "numerics/float16.hpp"
#include "numerics/fold.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax_rows.hpp"

namespace twinops {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// V elements that move as one: 16 bytes, kept as words (16-bit elements on their own would cost an
// instruction each to put together), or one element.
template <class T, int V>
struct alignas(16) Pack {
  static_assert(V * sizeof(T) == 16);
  uint4 words;
};
template <class T>
struct Pack<T, 1> {
  T element;
};

template <class T, int V>
__device__ __forceinline__ Pack<T, V> read_pack(const T* from) {
  if constexpr (V == 1)
    return {*from};
  else
    return {*reinterpret_cast<const uint4*>(from)};
}
template <class T, int V>
__device__ __forceinline__ Pack<T, V> pack_of(T value) {
  if constexpr (V == 1) {
    return {value};
  } else {
    struct alignas(16) Elements {
      T of[V];
    } elements;
    for (int e = 0; e < V; ++e) elements.of[e] = value;
    return {bit_cast<uint4>(elements)};
  }
}

// Elements 2i and 2i + 1 of a word.
__device__ __forceinline__ float2 widen_two(std::uint32_t word, float16) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
__device__ __forceinline__ float2 widen_two(std::uint32_t word, bfloat16) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

template <class T, int V>
__device__ __forceinline__ void widen_pack(const Pack<T, V>& pack, compute_t<T>* x) {
  if constexpr (V == 1) {
    x[0] = widen(pack.element);
  } else if constexpr (sizeof(T) == 2) {
    const std::uint32_t words[4] = {pack.words.x, pack.words.y, pack.words.z, pack.words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = widen_two(words[i], T{});
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    }
  } else if constexpr (sizeof(T) == 4) {
    x[0] = __uint_as_float(pack.words.x);
    x[1] = __uint_as_float(pack.words.y);
    x[2] = __uint_as_float(pack.words.z);
    x[3] = __uint_as_float(pack.words.w);
  } else {
    x[0] = __hiloint2double(pack.words.y, pack.words.x);
    x[1] = __hiloint2double(pack.words.w, pack.words.z);
  }
}

// Two values side by side, any NaN as the canonical one: as the device narrows one.
template <class T>
__device__ __forceinline__ std::uint32_t narrow_two(float low, float high) {
  if constexpr (std::is_same_v<T, float16>) {
    const __half2 two = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&two);
  } else {
    const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&two);
  }
}

__device__ __forceinline__ void write_16_bytes(void* to, uint4 words) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

// Stores y[e] as element e of V. 16-bit elements are narrowed two at a time. kNumbers: y is no NaN.
template <int V, bool kNumbers, class T>
__device__ __forceinline__ void write_pack(T* to, compute_t<T> (&y)[V]) {
  if constexpr (!kNumbers && sizeof(T) >= 4)
#pragma unroll
    for (int e = 0; e < V; ++e) y[e] = canonical(y[e]);
  if constexpr (V == 1) {
    *to = narrow<T>(y[0]);
  } else if constexpr (sizeof(T) == 2) {
    std::uint32_t words[V / 2];
#pragma unroll
    for (int i = 0; i < V / 2; ++i) words[i] = narrow_two<T>(y[2 * i], y[2 * i + 1]);
    if constexpr (V == 8)
      write_16_bytes(to, make_uint4(words[0], words[1], words[2], words[3]));
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < V; i += 4)
      write_16_bytes(to + i, make_uint4(__float_as_uint(y[i]), __float_as_uint(y[i + 1]),
                                        __float_as_uint(y[i + 2]), __float_as_uint(y[i + 3])));
  } else {
    static_assert(V == 2);
    write_16_bytes(to, make_uint4(__double2loint(y[0]), __double2hiint(y[0]), __double2loint(y[1]),
                                  __double2hiint(y[1])));
  }
}

// A chunk of a row, or a whole short row, on G lanes: R packs of V elements a lane, those of one r
// side by side. With V > 1 the elements lie next to each other and packs are whole.
template <int G, int R, int V>
struct Share {
  static constexpr int kElements = R * V, kLanes = G, kPack = V;

  // Calls f(r, j, inside): pack r holds elements j to j + V of the chunk, of which `left` are the
  // row's.
  template <class F>
  __device__ __forceinline__ static void each(int left, int lane, F&& f) {
#pragma unroll
    for (int r = 0; r < R; ++r) f(r, (r * G + lane) * V, (r * G + lane) * V < left);
  }

  // Of the `left` elements from `at` on, `step` apart; `pad` beyond them.
  template <class T>
  __device__ __forceinline__ static void load(const T* at, std::int64_t step, int left, int lane,
                                              T pad, Pack<T, V> (&packs)[R]) {
    if constexpr (V == 1) at += lane * step;
    each(left, lane, [&](int r, int j, bool inside) {
      packs[r] = pack_of<T, V>(pad);
      if (inside) packs[r] = read_pack<T, V>(V == 1 ? at : at + j);
      if constexpr (V == 1) at += G * step;
    });
  }
  template <class T>
  __device__ __forceinline__ static void load(const T* at, std::int64_t step, int left, int lane,
                                              T pad, compute_t<T> (&x)[kElements]) {
    Pack<T, V> packs[R];
    load(at, step, left, lane, pad, packs);
#pragma unroll
    for (int r = 0; r < R; ++r) widen_pack(packs[r], x + r * V);
  }

  // Stores pack r as f(r, y) gives it, which is no NaN or, where kNumbers is false, may be.
  template <bool kNumbers = false, class T, class F>
  __device__ __forceinline__ static void store(T* at, std::int64_t step, int left, int lane,
                                               F&& f) {
    if constexpr (V == 1) at += lane * step;
    each(left, lane, [&](int r, int j, bool inside) {
      compute_t<T> y[V];
      f(r, y);
      if (inside) write_pack<V, kNumbers>(V == 1 ? at : at + j, y);
      if constexpr (V == 1) at += G * step;
    });
  }
};

// Stores one value, NaN or not, from lane `lane` of G. Not inlined: it is rare.
template <class T>
__device__ __noinline__ void fill_share(T* at, std::int64_t step, int left, int lane, int G,
                                        T value) {
#pragma unroll 1
  for (int j = lane; j < left; j += G) at[j * step] = value;
}

constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

// s[0..kCount) in half until kUntil values are left. A recursion: the compiler does not unroll a
// loop whose inner loop halves, and s then lives in local memory, which costs half of the copy
// rate.
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
    for (int e = 0; e < kLeft; ++e) s[e] = s[e] + __shfl_xor_sync(kAllLanes, s[e], G / 2 >> k);
  fold_places<kLeft, 1>(s);
  return s[0];
}

// The tree of neighbours over sum(i), i < count <= 1024, by a warp; every lane has it. Each lane
// takes kOfLane neighbours, a power of two.
template <int kOfLane, class F, class Sum>
__device__ __forceinline__ F fold_neighbours(int begin, int count, Sum&& sum) {
  const int first = begin + threadIdx.x % kWarp * kOfLane;
  F s[kOfLane];
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) s[i] = first + i < count ? sum(first + i) : F(0);
#pragma unroll
  for (int i = 1; i < kOfLane; i *= 2)
#pragma unroll
    for (int j = 0; j < kOfLane; j += 2 * i) s[j] = s[j] + s[j + i];
#pragma unroll
  for (int k = 0; k < log2_of(kWarp); ++k) s[0] = s[0] + __shfl_xor_sync(kAllLanes, s[0], 1 << k);
  return s[0];
}
template <class F, class Sum>
__device__ __forceinline__ F fold_chunks(int count, Sum&& sum) {
  if (count <= kWarp) return fold_neighbours<1, F>(0, count, sum);
  if (count <= 2 * kWarp) return fold_neighbours<2, F>(0, count, sum);
  F mine = F(0);  // the sum of 32 chunks, and there are up to 32 of those
#pragma unroll 1
  for (int i = 0; i < count; i += kWarp) {
    const F next = fold_neighbours<1, F>(i, count, sum);
    if (threadIdx.x % kWarp == i / kWarp) mine = next;
  }
#pragma unroll
  for (int k = 0; k < log2_of(kWarp); ++k) mine = mine + __shfl_xor_sync(kAllLanes, mine, 1 << k);
  return mine;
}

// The greatest of two, NaN if either is.
__device__ __forceinline__ float greatest_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return greatest(a, b);
#endif
}
__device__ __forceinline__ double greatest_or_nan(double a, double b) { return greatest(a, b); }

// As integers of the same order where it can be, which halves the work.
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
#pragma unroll 1
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
