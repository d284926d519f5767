// Rows in few bytes of a launch's parameters. A launch of more than 256 bytes takes half a
// microsecond longer, or does so every second time (docs/performance.md, "Parameters": 2^18 floats
// in rows of 64 on an H100 5.7 us and 5.0), and with the sixteen axes that rows may lie along two
// operands take 456. So kernels of what most calls are count along few: one where rows lie a stride
// apart, else kFewAxes. Rows along more take a launch for each index of one of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "operators/softmax.hpp"
#include "operators/softmax_grad.hpp"
#include "operators/types.hpp"

namespace twinops {

inline constexpr int kFewAxes = 4;

// The same rows, which lie along no more than kAxes axes.
template <int kAxes, int N>
Rows<N, kAxes> in_axes(const Rows<N>& rows) {
  Rows<N, kAxes> few{rows.rows, rows.length, {}, {}};
  std::copy_n(rows.step, N, few.step);
  few.outer.rank = rows.outer.rank;
  std::copy_n(rows.outer.size, rows.outer.rank, few.outer.size);
  for (int k = 0; k < N; ++k)
    std::copy_n(rows.outer.stride[k], rows.outer.rank, few.outer.stride[k]);
  return few;
}

// What lies at one index of an axis: where that is in operand k, of `type`, and the rows along the
// other axes.
template <class Data, int N>
Data* moved_along(Data* data, const Rows<N>& rows, int k, Type type, int axis, std::int64_t index) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const std::byte, std::byte>;
  const auto size = static_cast<std::int64_t>(size_of(type));
  return static_cast<Byte*>(data) + index * rows.outer.stride[k][axis] * size;
}
template <int N>
Rows<N> without_axis(Rows<N> rows, int axis) {
  rows.rows /= rows.outer.size[axis];
  const auto take_out = [&](std::int64_t* of_axes) {
    std::copy(of_axes + axis + 1, of_axes + rows.outer.rank, of_axes + axis);
  };
  take_out(rows.outer.size);
  for (auto& stride : rows.outer.stride) take_out(stride);
  --rows.outer.rank;
  return rows;
}
inline SoftmaxArguments rows_at(SoftmaxArguments a, int axis, std::int64_t index) {
  a.out = moved_along(a.out, a.rows, 0, a.types.out, axis, index);
  a.x = moved_along(a.x, a.rows, 1, a.types.in, axis, index);
  a.rows = without_axis(a.rows, axis);
  return a;
}
inline SoftmaxGradArguments rows_at(SoftmaxGradArguments a, int axis, std::int64_t index) {
  a.dx = moved_along(a.dx, a.rows, 0, a.types.out, axis, index);
  a.y = moved_along(a.y, a.rows, 1, a.types.in, axis, index);
  a.dy = moved_along(a.dy, a.rows, 2, a.types.in, axis, index);
  a.rows = without_axis(a.rows, axis);
  return a;
}

// Calls launch(arguments) with all rows, or with parts that lie along kFewAxes axes: those of each
// index of the shortest axis, and so on. Masks have axes of their own, and are not in `arguments`.
template <class Arguments, class Launch>
void for_few_axes(const Arguments& arguments, Launch&& launch) {
  const auto& outer = arguments.rows.outer;
  if (outer.rank <= kFewAxes) return launch(arguments);
  const auto axis =
      static_cast<int>(std::min_element(outer.size, outer.size + outer.rank) - outer.size);
  for (std::int64_t i = 0; i < outer.size[axis]; ++i)
    for_few_axes(rows_at(arguments, axis, i), launch);
}

}  // namespace twinops
