// Where rows begin, and whether they can be read and written in vectors.
#pragma once

#include <algorithm>

#include "kernels_cuda/common/fast_divide.cuh"
#include "kernels_cuda/rows/lane_shapes.hpp"
#include "operators/softmax_rows.hpp"

namespace twinops {

// Where a row of each operand begins, in elements.
template <int N>
struct RowStarts {
  std::int64_t of[N];
};
// Returns row mod size, and row becomes their quotient. Both are mostly below 2^32, for which
// division is shorter.
__device__ __forceinline__ std::int64_t take_index(std::int64_t& row, std::int64_t size) {
  std::int64_t index;
  if ((row | size) >> 32 == 0) {
    const auto r = static_cast<std::uint32_t>(row), s = static_cast<std::uint32_t>(size);
    index = r % s;
    row = r / s;
  } else {
    index = row % size;
    row /= size;
  }
  return index;
}

// kOneAxis: rows lie along one axis at most, which takes fewer registers.
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
      const std::int64_t index = take_index(row, outer.size[axis]);
#pragma unroll
      for (int k = 0; k < N; ++k) starts.of[k] += index * outer.stride[k][axis];
    }
    if (outer.rank > 0)
#pragma unroll
      for (int k = 0; k < N; ++k) starts.of[k] += row * outer.stride[k][0];
  }
  return starts;
}

// Up to kAxes axes that rows lie along, in few bytes of parameters and with multiplications in
// place of divisions: for fewer than 2^31 rows.
template <int N, int kAxes>
struct CountedAxes {
  CountedAxes() = default;
  // Of the operands of `outer` and those of `more`, which has the same axes.
  template <int M, int kOthers>
  CountedAxes(const Layout<M>& outer, const Layout<kOthers>& more) : rank(outer.rank) {
    static_assert(M + kOthers == N);
    for (int axis = 0; axis < rank; ++axis) {
      size[axis] = static_cast<std::uint32_t>(outer.size[axis]);
      if (axis > 0) inner[axis - 1] = FastDivide(outer.size[axis]);
      for (int k = 0; k < N; ++k)
        stride[k][axis] = k < M ? outer.stride[k][axis] : more.stride[k - M][axis];
    }
  }

  int rank = 0;
  std::uint32_t size[kAxes] = {};      // outermost first
  FastDivide inner[kAxes - 1];         // of all but the outermost
  std::int64_t stride[N][kAxes] = {};  // in elements
};
template <bool kOneAxis = false, int N, int kAxes>
__device__ __forceinline__ RowStarts<N> row_starts(const CountedAxes<N, kAxes>& outer,
                                                   std::int64_t row) {
  auto rest = static_cast<std::uint32_t>(row);
  RowStarts<N> starts{};
#pragma unroll
  for (int axis = kAxes - 1; axis > 0; --axis) {
    if (kOneAxis || axis >= outer.rank) continue;
    const std::uint32_t quotient = outer.inner[axis - 1].quotient(rest);
    const std::uint32_t index = rest - quotient * outer.size[axis];
    rest = quotient;
#pragma unroll
    for (int k = 0; k < N; ++k) starts.of[k] += index * outer.stride[k][axis];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) starts.of[k] += rest * outer.stride[k][0];
  return starts;
}

struct OperandMemory {
  const void* data;
  std::size_t element;  // bytes
};

// The alignment of rows for vectors of 16 bytes, V elements, of operand `read`.
template <int N>
Alignment alignment_of(const Rows<N>& rows, const OperandMemory (&memory)[N], int read) {
  const auto v = static_cast<std::int64_t>(16 / memory[read].element);
  const auto begin = [&](int k) {  // in elements
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory[k].data) /
                                     memory[k].element);
  };
  const auto& stride = rows.outer.stride;
  bool whole = rows.length % v == 0 && begin(read) % v == 0;
  for (int axis = 0; axis < rows.outer.rank; ++axis) whole &= stride[read][axis] % v == 0;
  for (int k = 0; k < N; ++k) {
    // Elements of an access: 16 bytes, or all of a narrower vector.
    const std::int64_t access =
        std::min<std::int64_t>(v, static_cast<std::int64_t>(16 / memory[k].element));
    if (rows.step[k] != 1 || (begin(k) - begin(read)) % access != 0) return Alignment::none;
    for (int axis = 0; axis < rows.outer.rank; ++axis)
      if ((stride[k][axis] - stride[read][axis]) % access != 0) return Alignment::none;
  }
  return whole ? Alignment::aligned : Alignment::unaligned;
}

// Where the memory of operand k ends, whose rows' elements lie side by side.
template <class T, int N>
const T* end_of_rows(const Rows<N>& rows, int k, const void* data) {
  std::int64_t elements = rows.length;
  for (int axis = 0; axis < rows.outer.rank; ++axis)
    elements += std::max<std::int64_t>(0, rows.outer.stride[k][axis] * (rows.outer.size[axis] - 1));
  return static_cast<const T*>(data) + elements;
}

}  // namespace twinops
