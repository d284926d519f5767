// Vectors: neighbouring elements that one instruction moves. How they are read, widened, narrowed
// and written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <utility>

#include "kernels_cuda/common/ptx.cuh"
#include "numerics/float16.hpp"

namespace twinops {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// Calls f with the integral constants 0 to N - 1, so that instructions hold the offsets that f
// makes of them.
template <int N, class F>
__device__ __forceinline__ void unrolled(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, N>());
}

// V elements that move together: 16 bytes, two 16-bit elements, or one element. They are kept as
// words, because each 16-bit element on its own would cost an instruction to put it together.
template <class T, int V>
struct alignas(16) Vector {
  static_assert(V * sizeof(T) == 16);
  uint4 words;
};
template <class T>
struct Vector<T, 1> {
  T element;
};
template <class T, int V>
inline constexpr bool kTwoOf16Bits = V == 2 && sizeof(T) == 2;
template <class T>
requires kTwoOf16Bits<T, 2>
struct Vector<T, 2> {
  std::uint32_t word;
};

template <class T, int V>
__device__ __forceinline__ Vector<T, V> read_vector(const T* from) {
  if constexpr (V == 1)
    return {*from};
  else
    return {*reinterpret_cast<const uint4*>(from)};
}
// Hides the word's value from the compiler, which then computes again what it made of it. (Grids
// are flat, so gridDim.z is 1.)
__device__ __forceinline__ void make_word_opaque(std::uint32_t& word) { word ^= gridDim.z - 1; }
template <class T, int V>
__device__ __forceinline__ void make_vector_opaque(Vector<T, V>& vector) {
  if constexpr (kTwoOf16Bits<T, V>) {
    make_word_opaque(vector.word);
  } else {
    make_word_opaque(vector.words.x);
    make_word_opaque(vector.words.y);
    make_word_opaque(vector.words.z);
    make_word_opaque(vector.words.w);
  }
}
template <class T, int V>
__device__ __forceinline__ Vector<T, V> broadcast_vector(T value) {
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

// The first `count` elements of a, then the others of b.
template <class T, int V>
__device__ __forceinline__ Vector<T, V> splice(const Vector<T, V>& a, const Vector<T, V>& b,
                                               int count) {
  const auto of = [&](int word, std::uint32_t from_a, std::uint32_t from_b) {
    const int bits = max(0, 8 * static_cast<int>(sizeof(T)) * count - 32 * word);
    const std::uint32_t others = __funnelshift_lc(0, ~0u, bits);  // 0 from 32 bits on
    return (from_a & ~others) | (from_b & others);
  };
  return {make_uint4(of(0, a.words.x, b.words.x), of(1, a.words.y, b.words.y),
                     of(2, a.words.z, b.words.z), of(3, a.words.w, b.words.w))};
}

// Turns the sign of every element.
template <class T, int V>
__device__ __forceinline__ void negate_vector(Vector<T, V>& vector) {
  constexpr std::uint32_t kHigh = sizeof(T) == 2 ? 0x80008000u : 0x80000000u;
  constexpr std::uint32_t kLow = sizeof(T) == 8 ? 0 : kHigh;  // little-endian
  if constexpr (V == 1) {
    vector.element = -vector.element;
  } else if constexpr (kTwoOf16Bits<T, V>) {
    vector.word ^= kHigh;
  } else {
    vector.words.x ^= kLow;
    vector.words.y ^= kHigh;
    vector.words.z ^= kLow;
    vector.words.w ^= kHigh;
  }
}

// Both 16-bit elements of a word, widened.
__device__ __forceinline__ float2 widen_two(std::uint32_t word, float16) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
__device__ __forceinline__ float2 widen_two(std::uint32_t word, bfloat16) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

template <class T, int V>
__device__ __forceinline__ void widen_vector(const Vector<T, V>& vector, compute_t<T>* x) {
  if constexpr (V == 1) {
    x[0] = widen(vector.element);
  } else if constexpr (kTwoOf16Bits<T, V>) {
    const float2 two = widen_two(vector.word, T{});
    x[0] = two.x;
    x[1] = two.y;
  } else if constexpr (sizeof(T) == 2) {
    const std::uint32_t words[4] = {vector.words.x, vector.words.y, vector.words.z, vector.words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = widen_two(words[i], T{});
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    }
  } else if constexpr (sizeof(T) == 4) {
    x[0] = __uint_as_float(vector.words.x);
    x[1] = __uint_as_float(vector.words.y);
    x[2] = __uint_as_float(vector.words.z);
    x[3] = __uint_as_float(vector.words.w);
  } else {
    x[0] = __hiloint2double(vector.words.y, vector.words.x);
    x[1] = __hiloint2double(vector.words.w, vector.words.z);
  }
}

// The greater and the lesser of 16-bit elements, two at a time. The greater of a NaN and a number
// is NaN.
template <class T>
using Two = std::conditional_t<std::is_same_v<T, float16>, __half2, __nv_bfloat162>;
template <class T>
__device__ __forceinline__ Two<T> as_two(std::uint32_t word) {
  return *reinterpret_cast<const Two<T>*>(&word);
}
template <class T>
__device__ __forceinline__ std::uint32_t greater_two(std::uint32_t a, std::uint32_t b) {
  const Two<T> two = __hmax2_nan(as_two<T>(a), as_two<T>(b));
  return *reinterpret_cast<const std::uint32_t*>(&two);
}
template <class T>
__device__ __forceinline__ std::uint32_t lesser_two(std::uint32_t a, std::uint32_t b) {
  const Two<T> two = __hmin2(as_two<T>(a), as_two<T>(b));
  return *reinterpret_cast<const std::uint32_t*>(&two);
}

// V > 1 elements as they are stored: 4 to 32 bytes.
template <class T, int V>
struct Words {
  static constexpr int kCount = V * static_cast<int>(sizeof(T)) / 4;
  std::uint32_t of[kCount];
};

// Narrows 16-bit elements two at a time. kNumbers: no y is NaN.
template <class T, int V, bool kNumbers>
__device__ __forceinline__ Words<T, V> narrow_words(compute_t<T> (&y)[V]) {
  Words<T, V> words;
#pragma unroll
  for (int e = 0; e < V; ++e) {
    if constexpr (sizeof(T) == 2) {
      if (e % 2 == 0) words.of[e / 2] = narrow_two<T>(y[e], y[e + 1]);
    } else if constexpr (sizeof(T) == 4) {
      words.of[e] = __float_as_uint(kNumbers ? y[e] : canonical(y[e]));
    } else {
      const double number = kNumbers ? y[e] : canonical(y[e]);
      words.of[2 * e] = __double2loint(number);
      words.of[2 * e + 1] = __double2hiint(number);
    }
  }
  return words;
}

// Writes at to + kOffset.
template <int kOffset = 0, class T, int V>
__device__ __forceinline__ void write_words(T* to, const Words<T, V>& words) {
  constexpr int kCount = Words<T, V>::kCount, kBytes = kOffset * static_cast<int>(sizeof(T));
  if constexpr (kCount == 2)
    *reinterpret_cast<uint2*>(to + kOffset) = make_uint2(words.of[0], words.of[1]);
  else
    unrolled<kCount / 4>([&](auto k) {
      constexpr int i = 4 * k;
      write_16_bytes<kBytes + 4 * i>(
          to, make_uint4(words.of[i], words.of[i + 1], words.of[i + 2], words.of[i + 3]));
    });
}

template <int V, class T>
__device__ __forceinline__ Words<T, V> read_words(const T* from) {
  Words<T, V> words;
  if constexpr (words.kCount == 1) {
    words.of[0] = *reinterpret_cast<const std::uint32_t*>(from);
  } else if constexpr (words.kCount == 2) {
    const uint2 two = *reinterpret_cast<const uint2*>(from);
    words.of[0] = two.x;
    words.of[1] = two.y;
  } else {
#pragma unroll
    for (int i = 0; i < words.kCount; i += 4) {
      const uint4 four = reinterpret_cast<const uint4*>(from)[i / 4];
      words.of[i] = four.x;
      words.of[i + 1] = four.y;
      words.of[i + 2] = four.z;
      words.of[i + 3] = four.w;
    }
  }
  return words;
}

template <class T, int V>
__device__ __forceinline__ void widen_words(const Words<T, V>& words, compute_t<T> (&x)[V]) {
#pragma unroll
  for (int i = 0; i < Words<T, V>::kCount; ++i) {
    if constexpr (sizeof(T) == 2) {
      const float2 two = widen_two(words.of[i], T{});
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    } else if constexpr (sizeof(T) == 4) {
      x[i] = __uint_as_float(words.of[i]);
    } else if (i % 2 == 0) {
      x[i / 2] = __hiloint2double(static_cast<int>(words.of[i + 1]), static_cast<int>(words.of[i]));
    }
  }
}

// words[index] for an index that is known at run time, without local memory.
template <int kCount>
__device__ __forceinline__ std::uint32_t pick_word(const std::uint32_t (&words)[kCount],
                                                   unsigned index) {
  if constexpr (kCount == 1) {
    return words[0];
  } else {
    std::uint32_t half[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i)
      half[i] = (index & kCount / 2) != 0 ? words[i + kCount / 2] : words[i];
    return pick_word(half, index);
  }
}
template <class T, int V>
__device__ __forceinline__ T pick_element(const Words<T, V>& words, unsigned index) {
  if constexpr (sizeof(T) == 2) {
    const std::uint32_t two = pick_word(words.of, index / 2);
    return bit_cast<T>(static_cast<std::uint16_t>((index & 1) != 0 ? two >> 16 : two));
  } else if constexpr (sizeof(T) == 4) {
    return bit_cast<T>(pick_word(words.of, index));
  } else {
    static_assert(V == 2);
    const std::uint32_t low[2] = {words.of[0], words.of[2]}, high[2] = {words.of[1], words.of[3]};
    return __hiloint2double(pick_word(high, index), pick_word(low, index));
  }
}

}  // namespace twinops
