// Strided rows, as along axis 1 of [N, C, H, W]: the elements of a row are `step` apart, and
// neighbouring rows lie side by side.
//
// Threads follow memory. 2^k lanes of a warp hold V neighbouring rows each, as wide as an access
// is; the warp's other lanes, its registers and the other warps that share a chunk hold further
// elements of the same rows:
//
//   element of a chunk   b9 ...        ... b0
//                        register | lanes | warp
//
// So the fold of docs/numerics.md, from the top bit of the index down, adds registers first, then
// lanes, then warps, by way of shared memory. A short row takes no more than one warp. What lies
// beyond a row is +0, so any power of two that covers the row gives the same bits.
#pragma once

#include "kernels_cuda/common/vector_io.cuh"
#include "kernels_cuda/strided_rows/plan.cuh"

namespace twinops {

// V neighbouring rows at one element, as a thread has them: words, or one element.
template <class T, int V>
struct StridedRows {
  using type = Words<T, V>;
};
template <class T>
struct StridedRows<T, 1> {
  using type = T;
};
template <class T, int V>
using strided_rows_t = typename StridedRows<T, V>::type;

template <class T, int V>
__device__ __forceinline__ strided_rows_t<T, V> read_strided(const T* from) {
  if constexpr (V == 1) {
    return *from;
  } else {
    return read_words<V>(from);
  }
}
template <int V, class T>
__device__ __forceinline__ strided_rows_t<T, V> fill_strided(T value) {
  if constexpr (V == 1) {
    return value;
  } else {
    struct alignas(V * sizeof(T)) Elements {
      T of[V];
    } elements;
    for (int v = 0; v < V; ++v) elements.of[v] = value;
    return bit_cast<Words<T, V>>(elements);
  }
}
template <class T>
__device__ __forceinline__ void widen_strided(T element, compute_t<T> (&x)[1]) {
  x[0] = widen(element);
}
template <class T, int V>
__device__ __forceinline__ void widen_strided(const Words<T, V>& words, compute_t<T> (&x)[V]) {
  widen_words(words, x);
}
// kNumbers: no y is NaN, unless it is the canonical one, which the hardware keeps.
template <bool kNumbers, class T, int V>
__device__ __forceinline__ void write_strided(T* to, compute_t<T> (&y)[V]) {
  if constexpr (V == 1)
    *to = narrow<T>(y[0]);
  else if constexpr (Words<T, V>::kCount == 1)
    *reinterpret_cast<std::uint32_t*>(to) = narrow_words<T, V, kNumbers>(y).of[0];
  else
    write_words(to, narrow_words<T, V, kNumbers>(y));
}

// values[index % N] for an index that is known at run time, without local memory.
template <int N, class F>
__device__ __forceinline__ F pick_row(const F (&values)[N], int index) {
  if constexpr (N == 1) {
    return values[0];
  } else {
    F half[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) half[i] = (index & N / 2) != 0 ? values[i + N / 2] : values[i];
    return pick_row(half, index);
  }
}

// Which rows and which elements of a chunk a thread has.
template <int V>
struct StridedPlace {
  int side;             // the lane's number among those side by side
  int place;            // ... and along the row
  int warp;             // its number among those that share a chunk
  int group;            // which of the chunks that a block has at once
  std::uint32_t row;    // the first of V
  bool inside;          // false for rows beyond the last
  int first, step_log;  // element of register k: first + (k << step_log)

  // `several`: whether rows have several chunks.
  __device__ __forceinline__ StridedPlace(const StridedPlan& plan, std::int64_t rows,
                                          bool several) {
    const int lane = threadIdx.x % kWarp, number = static_cast<int>(threadIdx.x) / kWarp;
    side = lane & (plan.lanes() - 1);
    place = lane >> plan.lanes_log;
    warp = number & (plan.warps() - 1);
    group = several ? number >> plan.warps_log : 0;
    const std::uint32_t tile =
        several ? blockIdx.x / plan.blocks : blockIdx.x * plan.tiles + (number >> plan.warps_log);
    row = ((tile << plan.lanes_log) + side) * V;
    inside = row < static_cast<std::uint32_t>(rows);
    first = place << plan.warps_log | warp;
    step_log = plan.warps_log + 5 - plan.lanes_log;
  }
  // In a warp that has tile number `tile` of `rows` to itself.
  __device__ __forceinline__ StridedPlace(const StridedPlan& plan, int tile, int rows) {
    const int lane = threadIdx.x % kWarp;
    side = lane & (plan.lanes() - 1);
    first = place = lane >> plan.lanes_log;
    warp = group = 0;
    row = static_cast<std::uint32_t>(((tile << plan.lanes_log) + side) * V);
    inside = row < static_cast<std::uint32_t>(rows);
    step_log = 5 - plan.lanes_log;
  }
  // How many registers hold elements of the row, if `left` elements of a chunk are the row's.
  __device__ __forceinline__ int registers(int left) const {
    return (left - first + (1 << step_log) - 1) >> step_log;
  }
};

// How many elements chunk c of a row has.
__device__ __forceinline__ int left_of_chunk(std::int64_t length, int c) {
  const std::int64_t left = length - std::int64_t{c} * kFoldChunk;
  return static_cast<int>(max(std::int64_t{0}, min(left, std::int64_t{kFoldChunk})));
}

// row_starts(), with one multiplication in place of the division that most rows take.
template <int N, int kAxes>
__device__ __forceinline__ RowStarts<N> strided_starts(const StridedPlan& plan,
                                                       const Layout<N, kAxes>& outer,
                                                       std::uint32_t row) {
  RowStarts<N> starts;
#pragma unroll
  for (int k = 0; k < N; ++k) starts.of[k] = 0;
  const auto add = [&](int axis, std::uint32_t next) {
    const std::uint32_t index = row - next * static_cast<std::uint32_t>(outer.size[axis]);
#pragma unroll
    for (int k = 0; k < N; ++k) starts.of[k] += index * outer.stride[k][axis];
    row = next;
  };
  if (outer.rank > 1) add(outer.rank - 1, plan.by_inner.quotient(row));
#pragma unroll 1
  for (int axis = outer.rank - 2; axis > 0; --axis)
    add(axis, row / static_cast<std::uint32_t>(outer.size[axis]));
  add(0, 0);
  return starts;
}

// Loads K registers of V rows, from `at` on, elements `step` apart, of which `left` are the row's;
// the first kSure registers lie in the row in any case.
template <int kSure, int V, int K, class T>
__device__ __forceinline__ void load_strided(const StridedPlace<V>& of, const T* at,
                                             std::int64_t step, int left, T pad,
                                             strided_rows_t<T, V> (&vectors)[K]) {
  if (!of.inside) {
#pragma unroll
    for (int k = 0; k < K; ++k) vectors[k] = fill_strided<V>(pad);
    return;
  }
  const int registers = of.registers(left);
  at += of.first * step;
  step <<= of.step_log;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (k >= kSure) vectors[k] = fill_strided<V>(pad);
    if (k < kSure || k < registers) vectors[k] = read_strided<T, V>(at);
    at += step;
  }
}
// Stores value(k, y) to the same places.
template <bool kNumbers, int kSure, int V, int K, class T, class Value>
__device__ __forceinline__ void store_strided(const StridedPlace<V>& of, T* at, std::int64_t step,
                                              int left, Value&& value) {
  if (!of.inside) return;
  const int registers = of.registers(left);
  at += of.first * step;
  step <<= of.step_log;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (k < kSure || k < registers) {
      compute_t<T> y[V];
      value(k, y);
      write_strided<kNumbers>(at, y);
    }
    at += step;
  }
}
// Stores `value` to the same places of one of the rows. It is rare.
template <int V, class T>
__device__ __forceinline__ void fill_strided_row(const StridedPlace<V>& of, T* at,
                                                 std::int64_t step, int left, T value) {
  if (!of.inside) return;
  const int registers = of.registers(left);
  at += of.first * step;
#pragma unroll 1
  for (int k = 0; k < registers; ++k) at[k * (step << of.step_log)] = value;
}

}  // namespace twinops
