#include "operators/tensor_list.hpp"

namespace twinops {
namespace {

TensorList::Strided strided_member(const Call& call, const Tensor& x, const Tensor& out,
                                   const char* out_name, std::size_t index) {
  TensorList::Strided member{x.data, out.data, x.elements, x.type, {}};
  std::vector<std::int64_t> out_strides(x.rank), x_strides(x.rank);
  for (int i = 0; i < x.rank; ++i) {
    out_strides[i] = out.stride(i);
    x_strides[i] = x.stride(i);
  }
  if (!collapse<2>(member.layout, x.rank, x.shape, {out_strides.data(), x_strides.data()}))
    call.refuse(call.where(out_name, index),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return member;
}

}  // namespace

TensorList read_tensor_list(const Call& call, const char* x, const char* out) {
  const auto xs = call.list(x), outs = call.list(out);
  if (xs.size() != outs.size())
    call.refuse(std::string(call.info().name) + ": " + out,
                "expected as many tensors as " + std::string(x) + ", " + std::to_string(xs.size()) +
                    "; got " + std::to_string(outs.size()));
  const bool same = Call::are_same(call.argument(x), call.argument(out));
  TensorList list;
  list.dense.reserve(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Tensor &from = xs[i], &to = outs[i];
    if (!same || !from.contiguous) {
      if (from.type != to.type)
        call.refuse(call.where(out, i), std::string("expected the type of its input, ") +
                                            name(from.type) + "; got " + name(to.type));
      if (!same_shape(from, to))
        call.refuse(call.where(out, i), "expected the shape of its input, " + describe_shape(from) +
                                            "; got " + describe_shape(to));
    }
    if (from.elements == 0) continue;
    list.elements += from.elements;
    if (!from.contiguous || !to.contiguous) {
      TensorList::Strided member = strided_member(call, from, to, out, i);
      if (!member.layout.dense()) {
        list.strided.push_back(member);
        continue;
      }
    }
    list.dense.push_back({from.data, to.data, from.elements, list.dense_elements, from.type});
    list.dense_elements += from.elements;
  }
  return list;
}

const Tensor& read_scalar(const Call& call, const char* argument) {
  const Tensor& t = call.tensor(argument);
  if (t.elements != 1)
    call.refuse(call.where(argument), "expected one element; got shape " + describe_shape(t));
  return t;
}

}  // namespace twinops
