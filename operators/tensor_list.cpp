#include "operators/tensor_list.hpp"

#include <algorithm>

#include "operators/call.hpp"
#include "operators/describe.hpp"

namespace twinops {
namespace {

TensorList::Strided strided_member(const Call& call, const Tensor& x, const Tensor& out,
                                   const char* out_name, std::size_t index) {
  TensorList::Strided member{x.data, out.data, x.elements, x.type, {}};
  const Strides out_strides = strides_of(out), x_strides = strides_of(x);
  if (!collapse<2>(member.layout, x.rank, x.shape, {out_strides.data(), x_strides.data()}))
    call.refuse(call.where(out_name, index),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return member;
}

bool same_shape(const DLTensor& a, const DLTensor& b) {
  return a.ndim == b.ndim && std::equal(a.shape, a.shape + a.ndim, b.shape);
}

}  // namespace

TensorList::TensorList(const Call& call, const char* x, const char* out) {
  const std::size_t xs = call.argument(x).original().count;
  const std::size_t outs = call.argument(out).original().count;
  if (xs != outs)
    call.refuse(std::string(call.info().name) + ": " + out,
                "expected as many tensors as " + std::string(x) + ", " + std::to_string(xs) +
                    "; got " + std::to_string(outs));
  if (!take_as_they_came(call, x, out)) pick(call, x, out);
}

// Whether nothing about any member need be looked at but its address.
bool TensorList::take_as_they_came(const Call& call, const char* x, const char* out) {
  const Call::Bound &given = call.argument(x), &wanted = call.argument(out);
  const Call::Bound &from = given.original(), &to = wanted.original();
  if (!from.survey.dense || !from.survey.one_type) return false;
  if (!Call::are_same(given, wanted)) {
    if (!to.survey.dense || !to.survey.one_type || to.survey.type != from.survey.type) return false;
    for (std::size_t i = 0; i < from.count; ++i) {
      if (!same_shape(*from.array[i], *to.array[i])) return false;
      in_place_ &= address_of(*from.array[i]) == address_of(*to.array[i]);
    }
  }
  type_ = from.survey.type;
  types_.add(type_);
  elements_ = from.survey.elements;
  dense_elements_ = elements_;
  out_ = to.starts;
  x_ = in_place_ ? out_ : from.starts;
  dense_count_ = from.survey.is_one_run() && to.survey.is_one_run() ? 1 : from.count;
  return true;
}

void TensorList::pick(const Call& call, const char* x, const char* out) {
  const auto xs = call.list(x), outs = call.list(out);
  picked_x_.reserve(xs.size() + 1);
  picked_out_.reserve(xs.size() + 1);
  picked_types_.reserve(xs.size());
  in_place_ = true;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Tensor &from = xs[i], &to = outs[i];
    if (from.type != to.type)
      call.refuse(call.where(out, i), std::string("expected the type of its input, ") +
                                          name(from.type) + "; got " + name(to.type));
    if (!same_shape(from, to))
      call.refuse(call.where(out, i), "expected the shape of its input, " + describe_shape(from) +
                                          "; got " + describe_shape(to));
    if (from.elements == 0) continue;
    elements_ += from.elements;
    in_place_ &= from.data == to.data;
    types_.add(from.type);
    if (!from.contiguous || !to.contiguous) {
      Strided member = strided_member(call, from, to, out, i);
      if (!member.layout.dense()) {
        strided_.push_back(member);
        continue;
      }
    }
    picked_x_.push_back({dense_elements_, from.data});
    picked_out_.push_back({dense_elements_, to.data});
    picked_types_.push_back(from.type);
    dense_elements_ += from.elements;
  }
  picked_x_.push_back({dense_elements_, nullptr});
  picked_out_.push_back({dense_elements_, nullptr});
  dense_count_ = picked_types_.size();
  out_ = picked_out_.data();
  x_ = in_place_ ? out_ : picked_x_.data();
}

// The dense member with an element, or their number. Where all are equally long, the first guess
// finds it: each look is one at memory that another processor wrote.
std::size_t TensorList::member_of(std::int64_t element) const {
  if (element >= dense_elements_) return dense_count_;
  if (dense_count_ == 1) return 0;
  const double share = static_cast<double>(element) / static_cast<double>(dense_elements_);
  std::size_t low = 0, high = dense_count_;
  auto i = std::min(static_cast<std::size_t>(share * static_cast<double>(high)), high - 1);
  while (true) {
    if (element < out_[i].before)
      high = i;
    else if (element >= out_[i + 1].before)
      low = i + 1;
    else
      return i;
    i = low + (high - low) / 2;
  }
}

// Of members from i on, the first that is of another type or not wholly before `end`. One run of
// all, whose Starts are not its own, never is whole.
std::size_t TensorList::end_of_part(std::size_t i, std::int64_t end) const {
  if (dense_count_ == 1) return i;
  if (picked_types_.empty()) return member_of(end);
  std::size_t j = i;
  while (j < dense_count_ && picked_types_[j] == picked_types_[i] && out_[j + 1].before <= end) ++j;
  return j;
}

const Tensor& read_scalar(const Call& call, const char* argument) {
  const Tensor& t = call.tensor(argument);
  if (t.elements != 1)
    call.refuse(call.where(argument), "expected one element; got shape " + describe_shape(t));
  return t;
}

}  // namespace twinops
