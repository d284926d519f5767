#include "operators/mask_gradient.hpp"

#include "operators/call.hpp"
#include "operators/describe.hpp"

namespace twinops {
namespace {

// Takes some of the axes of dx: those that are kept, or the others.
class Axes {
 public:
  void add(std::int64_t size, std::int64_t packed, std::int64_t of_dx) {
    shape_.push_back(size);
    packed_.push_back(packed);
    of_dx_.push_back(of_dx);
  }
  bool collapse_to(Layout<2>& layout) const {
    return collapse<2>(layout, static_cast<int>(shape_.size()), shape_.data(),
                       {packed_.data(), of_dx_.data()});
  }

 private:
  Strides shape_, packed_, of_dx_;
};

}  // namespace

BroadcastSums read_broadcast_sums(const Call& call, const char* out_name, const char* of_name,
                                  const Tensor& dx) {
  const Tensor *out = call.optional_tensor(out_name), *of = call.optional_tensor(of_name);
  BroadcastSums sums;
  if (out == nullptr) return sums;
  if (of == nullptr)
    call.refuse(call.where(out_name), std::string("is asked for, but no ") + of_name + " is given");
  if (!kFloatingTypes.has(of->type))
    call.refuse(call.where(out_name), std::string("is asked for, but ") + of_name + " is " +
                                          name(of->type) + ", which has no gradient");
  if (out->type != of->type || !same_shape(*out, *of))
    call.refuse(call.where(out_name), std::string("expected the type and shape of ") + of_name +
                                          ", " + name(of->type) + describe_shape(*of) + "; got " +
                                          name(out->type) + describe_shape(*out));
  if (!out->contiguous) call.refuse(call.where(out_name), "expected a tensor without gaps");
  sums.out = out->data;
  sums.type = out->type;
  const Strides packed = row_major(dx), of_dx = strides_of(dx);
  const int first = dx.rank - of->rank;
  Axes rows, columns;
  for (int axis = 0; axis < dx.rank; ++axis) {
    const bool kept = axis >= first && of->shape[axis - first] != 1;
    (kept ? columns : rows).add(dx.shape[axis], packed[axis], of_dx[axis]);
  }
  sums.columns = out->elements;
  if (dx.elements == 0) return sums;  // of nothing
  sums.rows = dx.elements / sums.columns;
  if (!rows.collapse_to(sums.row_axes) || !columns.collapse_to(sums.column_axes))
    call.refuse(call.where("dx"),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return sums;
}

}  // namespace twinops
