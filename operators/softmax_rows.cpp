#include "operators/softmax_rows.hpp"

#include "operators/call.hpp"
#include "operators/describe.hpp"

namespace twinops {

int read_axis(const Call& call, int rank) {
  const std::int64_t axis = call.integer("axis");
  if (rank == 0)
    call.refuse(std::string(call.info().name) + ": axis",
                "a tensor without dimensions has no axis");
  if (axis < -rank || axis >= rank)
    call.refuse(std::string(call.info().name) + ": axis", "expected " + std::to_string(-rank) +
                                                              " to " + std::to_string(rank - 1) +
                                                              "; got " + std::to_string(axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

void expect_shape(const Call& call, const char* name, const char* like) {
  const Tensor &t = call.tensor(name), &expected = call.tensor(like);
  if (!same_shape(t, expected))
    call.refuse(call.where(name), std::string("expected the shape of ") + like + ", " +
                                      describe_shape(expected) + "; got " + describe_shape(t));
}

template <int N>
Rows<N> read_rows(const Call& call, const char* argument, const Tensor& first, int axis,
                  const std::array<Strides, N>& strides) {
  Rows<N> rows;
  if (first.elements == 0) return rows;  // a length beside a 0 may be near 2^63
  rows.length = first.shape[axis];
  rows.rows = first.elements / rows.length;
  Strides shape, outer[N];
  std::array<const std::int64_t*, N> pointers;
  for (int i = 0; i < first.rank; ++i)
    if (i != axis) shape.push_back(first.shape[i]);
  for (int k = 0; k < N; ++k) {
    rows.step[k] = strides[k][axis];
    for (int i = 0; i < first.rank; ++i)
      if (i != axis) outer[k].push_back(strides[k][i]);
    pointers[k] = outer[k].data();
  }
  if (!collapse<N>(rows.outer, static_cast<int>(shape.size()), shape.data(), pointers))
    call.refuse(call.where(argument),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return rows;
}

TypePair read_type_pair(const Call& call, const char* in, const char* out) {
  const TypePair pair{call.tensor(in).type, call.tensor(out).type};
  const auto is_float64 = [](Type type) { return type == Type::float64; };
  const bool mixed = pair.in != pair.out;
  if (mixed && (is_float64(pair.in) || is_float64(pair.out) ||
                (pair.in != Type::float32 && pair.out != Type::float32)))
    call.refuse(call.where(out), std::string("expected the type of ") + in + ", " + name(pair.in) +
                                     (is_float64(pair.in)        ? ""
                                      : pair.in == Type::float32 ? ", or float16 or bfloat16"
                                                                 : ", or float32") +
                                     "; got " + name(pair.out));
  return pair;
}

template Rows<7> read_rows<7>(const Call&, const char*, const Tensor&, int,
                              const std::array<Strides, 7>&);
template Rows<8> read_rows<8>(const Call&, const char*, const Tensor&, int,
                              const std::array<Strides, 8>&);

}  // namespace twinops
