#include "operators/softmax_rows.hpp"

namespace twinops {
namespace {

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

}  // namespace

template <int N>
Rows<N> read_rows(const Call& call, const std::array<const char*, N>& names) {
  const Tensor& first = call.tensor(names[0]);
  const int axis = read_axis(call, first.rank);
  for (int k = 1; k < N; ++k)
    if (!same_shape(call.tensor(names[k]), first))
      call.refuse(call.where(names[0]), "expected the shape of " + std::string(names[k]) + ", " +
                                            describe_shape(call.tensor(names[k])) + "; got " +
                                            describe_shape(first));
  Rows<N> rows;
  rows.length = first.shape[axis];
  if (first.elements == 0) return rows;
  rows.rows = first.elements / rows.length;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides[N];
  std::array<const std::int64_t*, N> pointers;
  for (int i = 0; i < first.rank; ++i)
    if (i != axis) shape.push_back(first.shape[i]);
  for (int k = 0; k < N; ++k) {
    const Tensor& t = call.tensor(names[k]);
    rows.step[k] = t.stride(axis);
    for (int i = 0; i < t.rank; ++i)
      if (i != axis) strides[k].push_back(t.stride(i));
    pointers[k] = strides[k].data();
  }
  if (!collapse<N>(rows.outer, static_cast<int>(shape.size()), shape.data(), pointers))
    call.refuse(call.where(names[0]),
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

template Rows<2> read_rows<2>(const Call&, const std::array<const char*, 2>&);
template Rows<3> read_rows<3>(const Call&, const std::array<const char*, 3>&);

}  // namespace twinops
