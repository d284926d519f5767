// Contiguous runs that begin at any element, read and written by a warp in aligned words of 16
// bytes. The distance of a run's begin from such a word, its shift, is the same for all vectors of
// the run. Every word that is read holds a byte of the run; bytes outside the run are never
// written.
#pragma once

#include "kernels_cuda/dropout/vector.cuh"

namespace twinops {

// to = bytes [shift, shift + 16 kWords) of w, which has 16 kWords + 16; 0 <= shift < 16.
template <class T, int kWords>
__device__ __forceinline__ void shift_bytes(std::uint32_t (&w)[4 * kWords + 4], std::uint32_t shift,
                                            std::uint32_t (&to)[4 * kWords]) {
  constexpr int kAll = 4 * kWords + 4;
#pragma unroll
  for (int j = 0; j < kAll - 2; ++j) w[j] = shift & 8 ? w[j + 2] : w[j];
#pragma unroll
  for (int j = 0; j < kAll - 3; ++j) w[j] = shift & 4 ? w[j + 1] : w[j];
#pragma unroll
  for (int j = 0; j < 4 * kWords; ++j)
    to[j] = sizeof(T) == 2 ? __funnelshift_r(w[j], w[j + 1], (shift & 3) * 8) : w[j];
}

__device__ __forceinline__ void split_word(const uint4& word, std::uint32_t* to) {
  to[0] = word.x;
  to[1] = word.y;
  to[2] = word.z;
  to[3] = word.w;
}
__device__ __forceinline__ uint4 joined_word(const std::uint32_t* from) {
  return make_uint4(from[0], from[1], from[2], from[3]);
}

// Reads a run. Without kUnaligned it begins at an aligned word.
template <class T, bool kUnaligned>
struct UnalignedReader {
  static constexpr int kWords = DropoutVector<T>::kWords;
  const uint4* words = nullptr;
  std::uint32_t shift = 0;

  struct Raw {
    uint4 words[kWords + kUnaligned];
  };

  __device__ UnalignedReader(const void* memory, std::int64_t element) {
    const char* at =
        static_cast<const char*>(memory) + element * static_cast<std::int64_t>(sizeof(T));
    if constexpr (kUnaligned)
      shift = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at)) & 15u;
    words = reinterpret_cast<const uint4*>(at - shift);
  }
  // The aligned words that hold vector number `vector`.
  __device__ __forceinline__ void load(std::uint32_t vector, Raw& raw) const {
    const uint4* at = words + vector * kWords;
#pragma unroll
    for (int k = 0; k < kWords; ++k) raw.words[k] = at[k];
    if constexpr (kUnaligned) raw.words[kWords] = shift != 0 ? at[kWords] : make_uint4(0, 0, 0, 0);
  }
  __device__ __forceinline__ DropoutVector<T> vector_of(const Raw& raw) const {
    DropoutVector<T> vector;
    if constexpr (kUnaligned) {
      std::uint32_t from[4 * kWords + 4], to[4 * kWords];
#pragma unroll
      for (int k = 0; k <= kWords; ++k) split_word(raw.words[k], from + 4 * k);
      shift_bytes<T, kWords>(from, shift, to);
#pragma unroll
      for (int k = 0; k < kWords; ++k) vector.words[k] = joined_word(to + 4 * k);
    } else {
#pragma unroll
      for (int k = 0; k < kWords; ++k) vector.words[k] = raw.words[k];
    }
    return vector;
  }
};

// Writes a run: lane i writes vectors i, i + 32, ... A word that two vectors share is stored by the
// lane of the later one, which gets the earlier vector by a shuffle. The run's first and last word
// are written element by element.
template <class T, bool kUnaligned>
struct UnalignedWriter {
  static constexpr int kWords = DropoutVector<T>::kWords, kElements = DropoutVector<T>::kElements;
  char* begin;  // of the run
  std::uint32_t shift = 0;
  uint4 before = {};  // the last word of this lane's previous vector

  __device__ UnalignedWriter(void* memory, std::int64_t element)
      : begin(static_cast<char*>(memory) + element * static_cast<std::int64_t>(sizeof(T))) {
    if constexpr (kUnaligned)
      shift = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(begin)) & 15u;
  }

  // Stores vector number `vector`, if there are so many. All lanes call it.
  __device__ __forceinline__ void store(std::uint32_t vector, std::uint32_t vectors,
                                        const DropoutVector<T>& p) {
    auto* const to = reinterpret_cast<uint4*>(begin - shift) + vector * kWords;
    if (!kUnaligned || shift == 0) {
      if (vector < vectors) {
#pragma unroll
        for (int k = 0; k < kWords; ++k) to[k] = p.words[k];
      }
      return;
    }
    std::uint32_t from[4 * kWords + 4], words[4 * kWords];
    split_word(of_lane_before(p.words[kWords - 1]), from);
#pragma unroll
    for (int k = 0; k < kWords; ++k) split_word(p.words[k], from + 4 + 4 * k);
    shift_bytes<T, kWords>(from, 16 - shift, words);
    if (vector >= vectors) return;
    if (vector != 0) to[0] = joined_word(words);
#pragma unroll
    for (int k = 1; k < kWords; ++k) to[k] = joined_word(words + 4 * k);
    if (vector == 0 || vector + 1 == vectors) store_ends(vector, vectors, p);
  }

 private:
  __device__ __forceinline__ uint4 of_lane_before(const uint4& mine) {
    const int lane = threadIdx.x % 32, from = (lane + 31) % 32;
    const uint4 given = lane == 31 ? before : mine;
    before = mine;
    return make_uint4(__shfl_sync(~0u, given.x, from), __shfl_sync(~0u, given.y, from),
                      __shfl_sync(~0u, given.z, from), __shfl_sync(~0u, given.w, from));
  }
  __device__ __forceinline__ void store_ends(std::uint32_t vector, std::uint32_t vectors,
                                             const DropoutVector<T>& p) const {
    const T* elements = reinterpret_cast<const T*>(p.words);
    T* const to = reinterpret_cast<T*>(begin) + vector * kElements;
    const std::uint32_t low = vector == 0 ? 16 - shift : 0;
    const std::uint32_t high = vector + 1 == vectors ? 16 * kWords - shift : 16 * kWords;
#pragma unroll
    for (std::uint32_t j = 0; j < kElements; ++j)
      if (j * sizeof(T) < low || j * sizeof(T) >= high) to[j] = elements[j];
  }
};

}  // namespace twinops
