// The offset of a row of each operand.
#pragma once

#include "numerics/qualifiers.hpp"
#include "operators/softmax_rows.hpp"

namespace twinops {

template <int N>
struct RowOffsets {
  std::int64_t of[N] = {};
};

template <int N>
TWINOPS_INLINE RowOffsets<N> row_offsets(const Layout<N>& outer, std::int64_t row) {
  RowOffsets<N> offsets;
  for (int axis = outer.rank - 1; axis >= 0; --axis) {
    const std::int64_t index = axis == 0 ? row : row % outer.size[axis];
    row = axis == 0 ? 0 : row / outer.size[axis];
    for (int k = 0; k < N; ++k) offsets.of[k] += index * outer.stride[k][axis];
  }
  return offsets;
}

}  // namespace twinops
