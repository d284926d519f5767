// Tensors of one shape as rows along one axis: what the softmax family works on.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "operators/layout.hpp"
#include "operators/operator.hpp"
#include "operators/tensor.hpp"

namespace twinops {

// N tensors. Row r of operand k begins where outer axis indices lead; its elements are step[k]
// apart.
template <int N, int kAxes = kMaxAxes>
struct Rows {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  std::int64_t step[N] = {};
  Layout<N, kAxes> outer;  // of the other axes; the order of rows is its own
};

// The attribute `axis`, counted from the first.
int read_axis(const Call& call, int rank);

// Refuses `name` where its shape is not that of `like`.
void expect_shape(const Call& call, const char* name, const char* like);

// Rows along `axis` of N operands of first's shape, with strides[k]. The first operand's decide in
// which order rows are visited. `argument` is named where there are too many axes.
template <int N>
Rows<N> read_rows(const Call& call, const char* argument, const Tensor& first, int axis,
                  const std::array<Strides, N>& strides);

// Operands [first, first + Count) of rows, in the same order.
template <int kFirst, int kCount, int N>
Layout<kCount> operands_of(const Layout<N>& layout) {
  Layout<kCount> part;
  part.rank = layout.rank;
  for (int axis = 0; axis < layout.rank; ++axis) {
    part.size[axis] = layout.size[axis];
    for (int k = 0; k < kCount; ++k) part.stride[k][axis] = layout.stride[kFirst + k][axis];
  }
  return part;
}

// The storage types that a call reads and writes. Mixed: one of them is float32, the other float16
// or bfloat16.
struct TypePair {
  Type in, out;
};
TypePair read_type_pair(const Call& call, const char* in, const char* out);

// Calls f(tag of out) for a pair that reads In.
template <class In, class F>
void with_out_type(TypePair pair, F&& f) {
  if (pair.in == pair.out) {
    f(TypeTag<In>{});
  } else if constexpr (std::is_same_v<In, float>) {
    if (pair.out == Type::float16) f(TypeTag<float16>{});
    if (pair.out == Type::bfloat16) f(TypeTag<bfloat16>{});
  } else if constexpr (!std::is_same_v<In, double>) {
    f(TypeTag<float>{});
  }
}
// Calls f(tag of in, tag of out).
template <class F>
void with_type_pair(TypePair pair, F&& f) {
  with_floating_type(pair.in, [&]<class In>(TypeTag<In> in) {
    with_out_type<In>(pair, [&]<class Out>(TypeTag<Out> out) { f(in, out); });
  });
}

extern template Rows<7> read_rows<7>(const Call&, const char*, const Tensor&, int,
                                     const std::array<Strides, 7>&);

}  // namespace twinops
