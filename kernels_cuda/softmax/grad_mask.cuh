// Which elements of a lane's fragment of a row the forward pass let count: a bit for each, bit
// r * V + e for element e of vector r. The mask is read in vectors where it lies as they do, else
// element by element.
#pragma once

#include <algorithm>

#include "kernels_cuda/softmax/mask_words.cuh"
#include "operators/softmax_mask.hpp"

namespace twinops {

// A bit for each element of a mask, of bytes or numbers of M.
template <class M, int V>
__device__ __forceinline__ std::uint32_t counting_bits(const Words<M, V>& words) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < words.kCount; ++i) {
    const std::uint32_t word = words.of[i];
    if constexpr (sizeof(M) == 1) {
      // The sign of each byte that is not 0; then those four signs side by side.
      const std::uint32_t signs = ~(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
      bits |= ((signs >> 7) * 0x01020408u >> 24) << 4 * i;
    } else if constexpr (sizeof(M) == 2) {
      constexpr std::uint32_t kOut = std::is_same_v<M, float16> ? 0xfc00u : 0xff80u;
      bits |= std::uint32_t{(word & 0xffffu) != kOut} << 2 * i;
      bits |= std::uint32_t{word >> 16 != kOut} << (2 * i + 1);
    } else if constexpr (sizeof(M) == 4) {
      bits |= std::uint32_t{word != 0xff800000u} << i;
    } else if (i % 2 == 0) {
      bits |= std::uint32_t{word != 0 || words.of[i + 1] != 0xfff00000u} << i / 2;
    }
  }
  return bits;
}

// Those of the vectors of which the row's first `used` elements hold all, in a mask whose elements
// lie side by side from `row` on. done: a bit for each vector that was read.
template <class M, class S>
__device__ __forceinline__ std::uint32_t counting_in_vectors(const S& fragment, const M* row,
                                                             int used, std::uint32_t& done) {
  constexpr int V = S::kVector, kBytes = V * static_cast<int>(sizeof(M));
  std::uint32_t bits = 0;
  if constexpr (kBytes >= 4) {
    const int first = fragment.place(0);
    const bool lies =
        reinterpret_cast<std::uintptr_t>(row + first) % (kBytes < 16 ? kBytes : 16) == 0;
#pragma unroll
    for (int r = 0; r < S::kElements / V; ++r) {
      const int at = first + r * S::kStride;
      if (!lies || at < 0 || at + V > used) continue;
      bits |= counting_bits(read_words<V>(row + first + r * S::kStride)) << r * V;
      done |= 1u << r;
    }
  }
  return bits;
}

// The same one by one, of the vectors that are not done yet.
template <class S>
__device__ __forceinline__ std::uint32_t counting_one_by_one(const S& fragment, const RowMask& mask,
                                                             std::int64_t at, int used,
                                                             std::uint32_t done) {
  constexpr int V = S::kVector;
  std::uint32_t bits = 0;
#pragma unroll 1
  for (int r = 0; r < S::kElements / V; ++r) {
    if ((done >> r & 1) != 0) continue;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const int j = fragment.element(r, e);
      if (j < used && mask.lets_count(at + j * mask.step)) bits |= 1u << (r * V + e);
    }
  }
  return bits;
}

// at: where the mask's elements of the chunk begin; used: how many of the chunk's elements, from
// the first on, are neither beyond the row nor masked out by a length or the diagonal.
template <class S>
__device__ __forceinline__ std::uint32_t counting_elements(const S& fragment, const RowMask& mask,
                                                           std::int64_t at, int used) {
  constexpr int V = S::kVector, R = S::kElements / V;
  static_assert(R * V <= 32);
  std::uint32_t bits = 0, done = 0;
  if constexpr (V == 1) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int j = fragment.element(r, 0);
      if (j < used && mask.lets_count(at + j * mask.step)) bits |= 1u << r;
    }
  } else if (mask.kind == RowMask::Kind::none) {
#pragma unroll
    for (int i = 0; i < R * V; ++i)
      bits |= std::uint32_t{fragment.element(i / V, i % V) < used} << i;
  } else {
    const auto in_vectors = [&]<class M>(TypeTag<M>) {
      bits = counting_in_vectors(fragment, static_cast<const M*>(mask.data) + at, used, done);
    };
    if (mask.step == 1) {
      if (mask.kind == RowMask::Kind::excluded)
        in_vectors(TypeTag<std::uint8_t>());
      else if (mask.type == Type::float16)
        in_vectors(TypeTag<float16>());
      else if (mask.type == Type::bfloat16)
        in_vectors(TypeTag<bfloat16>());
      else if (mask.type == Type::float32)
        in_vectors(TypeTag<float>());
      else
        in_vectors(TypeTag<double>());
    }
    bits |= counting_one_by_one(fragment, mask, at, used, done);
  }
  return bits;
}

// Makes +0 of elements whose bit is not set.
template <class T, int V>
__device__ __forceinline__ void keep_elements(std::uint32_t bits, Vector<T, V>& vector) {
  if constexpr (V == 1) {
    if ((bits & 1) == 0) vector.element = T{};
  } else {
    const auto kept = [&](int word) {
      if constexpr (sizeof(T) == 2)
        return ((bits >> 2 * word & 1) != 0 ? 0xffffu : 0u) |
               ((bits >> (2 * word + 1) & 1) != 0 ? 0xffff0000u : 0u);
      else
        return (bits >> word * 4 / static_cast<int>(sizeof(T)) & 1) != 0 ? ~0u : 0u;
    };
    vector.words.x &= kept(0);
    vector.words.y &= kept(1);
    vector.words.z &= kept(2);
    vector.words.w &= kept(3);
  }
}

}  // namespace twinops
