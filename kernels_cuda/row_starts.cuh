// Where rows begin, and whether they can be read and written in packs.
#pragma once

#include <algorithm>

#include "operators/softmax_rows.hpp"

namespace twinops {

// Where row `row` of each operand begins.
template <int N>
struct RowStarts {
  std::int64_t of[N];
};
// kOneAxis: there is no more than one axis to count along, which takes fewer registers.
template <bool kOneAxis = false, int N, int kAxes>
__device__ __forceinline__ RowStarts<N> row_starts(const Layout<N, kAxes>& outer,
                                                   std::int64_t row) {
  RowStarts<N> starts;
  if constexpr (kOneAxis || kAxes == 1) {
#pragma unroll
    for (int k = 0; k < N; ++k) starts.of[k] = row * outer.stride[k][0];
  } else {
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
  }
  return starts;
}

// Whole: every row begins and ends at a multiple of 16 bytes of the operand that is read, and of as
// many elements of the others. Ragged: the operands are aligned alike, row by row, wherever that
// is.
enum class Packs { none, ragged, whole };

struct RowMemory {
  const void* data;
  std::size_t element;  // bytes
};

// For packs of 16 bytes of operand `read`, V elements.
template <int N>
Packs packs_of(const Rows<N>& rows, const RowMemory (&memory)[N], int read) {
  const auto v = static_cast<std::int64_t>(16 / memory[read].element);
  const auto begin = [&](int k) {  // in elements
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory[k].data) /
                                     memory[k].element);
  };
  const auto& stride = rows.outer.stride;
  bool whole = rows.length % v == 0 && begin(read) % v == 0;
  for (int axis = 0; axis < rows.outer.rank; ++axis) whole &= stride[read][axis] % v == 0;
  for (int k = 0; k < N; ++k) {
    // Elements of an access: 16 bytes, or all of a narrower pack.
    const std::int64_t access =
        std::min<std::int64_t>(v, static_cast<std::int64_t>(16 / memory[k].element));
    if (rows.step[k] != 1 || (begin(k) - begin(read)) % access != 0) return Packs::none;
    for (int axis = 0; axis < rows.outer.rank; ++axis)
      if ((stride[k][axis] - stride[read][axis]) % access != 0) return Packs::none;
  }
  return whole ? Packs::whole : Packs::ragged;
}

// Where the memory of operand k ends, whose elements of a row lie side by side.
template <class T, int N>
const T* end_of_rows(const Rows<N>& rows, int k, const void* data) {
  std::int64_t elements = rows.length;
  for (int axis = 0; axis < rows.outer.rank; ++axis)
    elements += std::max<std::int64_t>(0, rows.outer.stride[k][axis] * (rows.outer.size[axis] - 1));
  return static_cast<const T*>(data) + elements;
}

}  // namespace twinops
