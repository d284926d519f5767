// Splits a call whose rows lie along many axes, so that a launch's parameters stay below
// kSmallParameters bytes (docs/lab/softmax-warp-kernel.md#parameters-of-a-launch). Kernels count
// along few axes: one where rows lie a stride apart, else kKernelAxes, or kSoftmaxAxes where the
// mask's rows are counted too. A call whose rows lie along more of them takes a launch for each
// index of one axis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "operators/softmax.hpp"
#include "operators/types.hpp"

namespace twinops {

inline constexpr int kKernelAxes = 4, kSoftmaxAxes = 3;

// The same rows, which lie along no more than kAxes axes.
template <int kAxes, int N, int kGiven>
Rows<N, kAxes> in_axes(const Rows<N, kGiven>& rows) {
  Rows<N, kAxes> result{rows.rows, rows.length, {}, {}};
  std::copy_n(rows.step, N, result.step);
  result.outer.rank = rows.outer.rank;
  std::copy_n(rows.outer.size, rows.outer.rank, result.outer.size);
  for (int k = 0; k < N; ++k)
    std::copy_n(rows.outer.stride[k], rows.outer.rank, result.outer.stride[k]);
  return result;
}

// Keeps `size` indexes of an axis from `begin` on: where they lie in operand k of `outer`, whose
// elements take `element` bytes, and which rows they are.
template <class Data, int N>
void move_along(Data*& data, const Layout<N>& outer, int k, std::size_t element, int axis,
                std::int64_t begin) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const std::byte, std::byte>;
  if (data != nullptr)
    data = static_cast<Byte*>(data) +
           begin * outer.stride[k][axis] * static_cast<std::int64_t>(element);
}
template <int N>
void take_part(Layout<N>& outer, int axis, std::int64_t size) {
  outer.size[axis] = size;
  if (size > 1) return;
  const auto take_out = [&](std::int64_t* of_axes) {
    std::copy(of_axes + axis + 1, of_axes + outer.rank, of_axes + axis);
  };
  take_out(outer.size);
  for (auto& stride : outer.stride) take_out(stride);
  --outer.rank;
}
template <int N>
void take_part(Rows<N>& rows, int axis, std::int64_t size) {
  rows.rows = rows.rows / rows.outer.size[axis] * size;
  take_part(rows.outer, axis, size);
}
inline void move_mask(RowMask& mask, const Layout<RowMask::kOperands>& outer, int axis,
                      std::int64_t begin) {
  move_along(mask.data, outer, RowMask::kMask, mask.element(), axis, begin);
  move_along(mask.lengths, outer, RowMask::kLength, mask.wide_lengths ? 8 : 4, axis, begin);
  mask.causal_offset += begin * outer.stride[RowMask::kQuery][axis];
}
inline SoftmaxArguments part_of(SoftmaxArguments a, int axis, std::int64_t begin,
                                std::int64_t size) {
  move_along(a.out, a.rows.outer, SoftmaxArguments::kOut, size_of(a.types.out), axis, begin);
  move_along(a.x, a.rows.outer, SoftmaxArguments::kX, size_of(a.types.in), axis, begin);
  move_mask(a.mask, a.mask_outer, axis, begin);
  take_part(a.rows, axis, size);
  take_part(a.mask_outer, axis, size);
  return a;
}

// Calls launch(arguments) with all rows, or with parts that lie along kAxes axes: a part for each
// index of the shortest axis, and so on.
template <int kAxes, class Arguments, class Launch>
void split_axes(const Arguments& arguments, Launch&& launch) {
  const auto& outer = arguments.rows.outer;
  if (outer.rank <= kAxes) return launch(arguments);
  const auto axis =
      static_cast<int>(std::min_element(outer.size, outer.size + outer.rank) - outer.size);
  for (std::int64_t i = 0; i < outer.size[axis]; ++i)
    split_axes<kAxes>(part_of(arguments, axis, i, 1), launch);
}

// Calls launch(arguments) with parts of fewer than 2^31 rows: halves of the longest axis, and so
// on.
template <class Arguments, class Launch>
void split_rows(const Arguments& arguments, Launch&& launch) {
  const auto& outer = arguments.rows.outer;
  if (arguments.rows.rows >> 31 == 0) return launch(arguments);
  const auto axis =
      static_cast<int>(std::max_element(outer.size, outer.size + outer.rank) - outer.size);
  const std::int64_t size = outer.size[axis], half = size / 2;
  split_rows(part_of(arguments, axis, 0, half), launch);
  split_rows(part_of(arguments, axis, half, size - half), launch);
}

}  // namespace twinops
