// Tensors of one shape as rows along one axis: what the softmax family works on.
#pragma once

#include "operators/call.hpp"
#include "operators/layout.hpp"

namespace twinops {

// N tensors. Row r of operand k begins where outer axis indices lead; its elements are step[k]
// apart.
template <int N>
struct Rows {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  std::int64_t step[N] = {};
  Layout<N> outer;  // of the other axes; the order of rows is its own
};

// Reads attribute `axis` and the tensors, which must be of one shape. The first one's strides
// decide in which order rows are visited.
template <int N>
Rows<N> read_rows(const Call& call, const std::array<const char*, N>& names);

// The storage types that a call reads and writes. Mixed: one of them is float32, the other float16
// or bfloat16.
struct TypePair {
  Type in, out;
};
TypePair read_type_pair(const Call& call, const char* in, const char* out);

// Calls f(tag of in, tag of out).
template <class F>
void with_type_pair(TypePair pair, F&& f) {
  with_floating_type(pair.in, [&]<class In>(TypeTag<In> in) {
    if (pair.in == pair.out) {
      f(in, in);
    } else if constexpr (std::is_same_v<In, float>) {
      if (pair.out == Type::float16) f(in, TypeTag<float16>{});
      if (pair.out == Type::bfloat16) f(in, TypeTag<bfloat16>{});
    } else if constexpr (!std::is_same_v<In, double>) {
      f(in, TypeTag<float>{});
    }
  });
}

extern template Rows<2> read_rows<2>(const Call&, const std::array<const char*, 2>&);
extern template Rows<3> read_rows<3>(const Call&, const std::array<const char*, 3>&);

}  // namespace twinops
