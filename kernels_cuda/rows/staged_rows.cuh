// Short rows that lie side by side without a gap, by way of a block's shared memory. They are
// copied 16 bytes at a time whatever the rows' length, and lanes take their elements from there in
// words of 4 bytes. So a row needs no long head and tail, and no shuffles for them. What was
// measured and tried: docs/lab/softmax-warp-kernel.md#staged-rows.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <type_traits>

#include "kernels_cuda/common/vector_io.cuh"
#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/rows/lane_shapes.hpp"
#include "kernels_cuda/rows/plan.cuh"
#include "operators/softmax_rows.hpp"
#include "operators/types.hpp"

namespace twinops {

// `count` elements that one block works on. They lie in shared memory as they do in global memory,
// from a multiple of 16 bytes on.
template <class T>
class StagedRows {
 public:
  static constexpr std::size_t bytes(std::size_t count) {
    return (count + 2 * (kVector - 1)) * sizeof(T) / 16 * 16;
  }

  __device__ __forceinline__ StagedRows(void* memory, const T* from, int count)
      : count_(count),
        shift_(static_cast<int>(reinterpret_cast<std::uintptr_t>(from) / sizeof(T) % kVector)),
        memory_(static_cast<T*>(memory)) {}

  __device__ __forceinline__ T* memory() const { return memory_; }
  // Where the first one lies.
  __device__ __forceinline__ int shift() const { return shift_; }

  // All threads of the block; each may read and write every element once it has waited.
  __device__ __forceinline__ void fetch(const T* from) const {
    copy(memory_ + shift_, from,
         [](T* to, const T* vector) { __pipeline_memcpy_async(to, vector, 16); });
    __pipeline_commit();
  }
  __device__ __forceinline__ static void wait() {
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  // All threads, once they have written: stores to memory with the same offset within 16 bytes as
  // what was fetched.
  __device__ __forceinline__ void store(T* to) const {
    __syncthreads();
    copy(to, memory_ + shift_, [](T* vector, const T* from) {
      *reinterpret_cast<uint4*>(vector) = *reinterpret_cast<const uint4*>(from);
    });
  }

 private:
  static constexpr int kVector = 16 / sizeof(T);

  // Copies whole vectors by copy_vector, the elements of head and tail one by one.
  template <class CopyPack>
  __device__ __forceinline__ void copy(T* to, const T* from, CopyPack&& copy_vector) const {
    const int head = min(count_, (kVector - shift_) % kVector), vectors = (count_ - head) / kVector;
    for (int i = threadIdx.x; i < vectors; i += kShortThreads)
      copy_vector(to + head + i * kVector, from + head + i * kVector);
    const int end_element =
        threadIdx.x < kVector ? static_cast<int>(threadIdx.x)
                              : head + vectors * kVector + static_cast<int>(threadIdx.x) - kVector;
    if (end_element < (threadIdx.x < kVector ? head : count_)) to[end_element] = from[end_element];
  }

  int count_, shift_;
  T* memory_;
};

// The fragment of a row of up to kMost elements on G lanes, R words each: the layout of
// rows/lane_io.cuh, in which nothing wraps round. Every row has elements for kFilled words of a
// lane, or one more. A word is one float32, or two 16-bit elements, one of which may be another
// row's and is then neither read nor written.
template <class T, int G, int R, int kFilled>
class StagedFragment : public RowLane {
 public:
  using Element = T;
  static constexpr int V = 4 / sizeof(T);
  static constexpr int kElements = R * V, kLanes = G, kVector = V;
  static constexpr int kStride = G * V;  // elements from one word of a lane to its next
  static constexpr int kLeast = kFilled * G * V, kMost = R * G * V - (V - 1);

  // Of the row of `length` elements that begins with element `begin` of the block's memory.
  __device__ __forceinline__ StagedFragment(int begin, int length, int lane)
      : RowLane(lane, length), shift_(begin & (V - 1)) {}

  // Which element of the row is element e of word r; other rows' are below 0 or beyond the row.
  __device__ __forceinline__ int element(int r, int e) const { return element(r) + e; }

  // Where the lane's word r is, counted from the row's first element.
  __device__ __forceinline__ int place(int r) const { return element(r); }
  // Whether the lane's element i is the row's.
  __device__ __forceinline__ bool has(int i) const {
    return inside(i / V) || (i % V == 0 ? has_first(i / V) : has_last(i / V));
  }

  // Loads from `at` on, the row's first element; 0 beyond the row.
  __device__ __forceinline__ void load(const T* at, Vector<T, V> (&vectors)[R]) const {
    const T* const mine = at + element(0);
    unrolled<R>([&](auto r) {
      const T* const from = mine + r * kStride;
      std::uint32_t word = 0;
      if (inside(r) || (has_first(r) && has_last(r)))
        word = *reinterpret_cast<const std::uint32_t*>(from);
      else if (V == 2 && has_first(r))
        word = bits_of(from[0]);
      else if (V == 2 && has_last(r))
        word = bits_of(from[V - 1]) << 16;
      vectors[r] = bit_cast<Vector<T, V>>(word);
    });
  }
  // Makes all elements `value` that are not among the row's first `left`, which are all of them or
  // fewer.
  __device__ __forceinline__ void pad(int left, T value, Vector<T, V> (&vectors)[R]) const {
    const std::uint32_t values = V == 2 ? bits_of(value) * 0x10001u : bits_of(value);
    const auto pad_word = [&](auto r) {
      std::uint32_t kept = is_below(element(r), left) ? (V == 2 ? 0xffffu : ~0u) : 0;
      if (V == 2 && is_below(element(r) + 1, left)) kept |= 0xffff0000u;
      vectors[r] =
          bit_cast<Vector<T, V>>((bit_cast<std::uint32_t>(vectors[r]) & kept) | (values & ~kept));
    };
    unrolled<R>([&](auto r) {
      if (!inside(r)) pad_word(r);
    });
    if (left == left_) return;
    unrolled<R>([&](auto r) {
      if (inside(r)) pad_word(r);
    });
  }
  // Stores word r as f(r, y) gives it; kNumbers: no y is NaN. (The other parameters of
  // LaneFragment::store() make no difference here.)
  template <bool kNumbers, bool = false, bool = false, class F>
  __device__ __forceinline__ void store(T* at, std::int64_t, F&& f) const {
    if (left_ == 0) return;
    T* const mine = at + element(0);
    unrolled<R>([&](auto r) {
      compute_t<T> y[V];
      f(r, y);
      const std::uint32_t word = narrow_words<T, V, kNumbers>(y).of[0];
      T* const to = mine + r * kStride;
      if (inside(r) || (has_first(r) && has_last(r)))
        *reinterpret_cast<std::uint32_t*>(to) = word;
      else if (V == 2 && has_first(r))
        to[0] = element_of(word);
      else if (V == 2 && has_last(r))
        to[V - 1] = element_of(word >> 16);
    });
  }

 private:
  using Bits = std::conditional_t<V == 2, std::uint16_t, std::uint32_t>;
  __device__ __forceinline__ static std::uint32_t bits_of(T element) {
    return bit_cast<Bits>(element);
  }
  __device__ __forceinline__ static T element_of(std::uint32_t bits) {
    return bit_cast<T>(static_cast<Bits>(bits));
  }

  // Which element of the row is the first of word r.
  __device__ __forceinline__ int element(int r) const { return lane_ * V - shift_ + r * kStride; }
  // Whether every lane's word r is the row's, whatever its length.
  static constexpr bool inside(int r) { return (V == 1 || r > 0) && (r + 1) * kStride <= kLeast; }
  __device__ __forceinline__ bool has_first(int r) const {
    return (V == 1 || r > 0 || element(0) >= 0) && element(r) < left_;
  }
  __device__ __forceinline__ bool has_last(int r) const { return element(r) + V - 1 < left_; }

  int shift_;
};

// Calls launch(TypeTag<StagedFragment>) with how a row of `length` lies in lanes.
template <Shapes kShapes, class T, std::size_t kLine = 0, class Launch>
void with_staged_shape(int length, Launch&& launch) {
  constexpr LaneShapes kTable = staged_shapes(kShapes, sizeof(T));
  constexpr LaneShape kShape = kTable[kLine];
  constexpr LaneShape kShorter = kLine == 0 ? LaneShape{1, 0} : kTable[kLine - (kLine > 0)];
  constexpr int kFilled = kShorter.lanes * kShorter.count / kShape.lanes;
  using S = StagedFragment<T, kShape.lanes, kShape.count, kFilled>;
  static_assert(S::kMost > most_staged(kShorter, S::V));
  if constexpr (kLine + 1 < kTable.size())
    if (length > S::kMost) return with_staged_shape<kShapes, T, kLine + 1>(length, launch);
  launch(TypeTag<S>());
}

// Rows that a block has threads for at a time, and which of them this thread works on. Where they
// can, a warp's rows lie an odd number of words from one another, so that few lanes meet in a bank.
template <class S>
inline constexpr int kStagedRows = kShortThreads / S::kLanes;
template <class S>
__device__ __forceinline__ int staged_row(int length) {
  constexpr int kOfWarp = kWarp / S::kLanes;
  const int warp = threadIdx.x / kWarp, row = threadIdx.x % kWarp / S::kLanes;
  if (S::kVector == 2 && length % 2 != 0) return (warp & -2) * kOfWarp + 2 * row + warp % 2;
  return warp * kOfWarp + row;
}

// What one block works on: `rows` rows, `rounds` times as many as it has threads for, counting
// those beyond the last row that there is; and `count` elements from `begin` on.
template <class S>
struct StagedBlock {
  template <class Rows>
  __device__ __forceinline__ StagedBlock(const Rows& all, int rounds)
      : length(static_cast<int>(all.length)),
        rows(rounds * kStagedRows<S>),
        first(std::int64_t{blockIdx.x} * rows) {
    begin = first * length;
    count = static_cast<int>(min(std::int64_t{rows}, all.rows - first)) * length;
  }
  int length, rows;
  std::int64_t first, begin;  // of all rows, of all elements
  int count;
};

// Whether the rows of every operand lie side by side, with a length that is no multiple of a
// vector: of such rows lanes would meet in a bank.
template <class T, class Rows>
bool can_be_staged(const Rows& rows) {
  constexpr int kVector = 16 / sizeof(T), N = std::extent_v<decltype(rows.step)>;
  if (rows.length % kVector == 0) return false;
  for (int k = 0; k < N; ++k) {
    std::int64_t distance = rows.length;
    for (int axis = rows.outer.rank - 1; axis >= 0; distance *= rows.outer.size[axis--])
      if (rows.outer.stride[k][axis] != distance) return false;
    if (rows.step[k] != 1) return false;
  }
  return true;
}

// Launches kernel(params, rounds), which has `operands` operands in shared memory. A block takes
// `bytes` or more of each, so that enough is on its way at once.
template <class S, class Params>
void launch_staged_rows(void (*kernel)(Params, int), const Params& params, int operands, int bytes,
                        Execution& execution) {
  using T = typename S::Element;
  const auto length = static_cast<int>(params.rows.length);
  const int at_once = kStagedRows<S> * length, elements = bytes / static_cast<int>(sizeof(T));
  const int rounds = (elements + at_once - 1) / at_once, rows = rounds * kStagedRows<S>;
  const std::size_t shared = StagedRows<T>::bytes(static_cast<std::size_t>(rows * length));
  launch_rows(execution, kernel, grid_of((params.rows.rows + rows - 1) / rows), kShortThreads,
              static_cast<std::size_t>(operands) * shared, 1, params, rounds);
}

}  // namespace twinops
