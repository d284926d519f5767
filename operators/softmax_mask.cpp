#include "operators/softmax_mask.hpp"

#include <algorithm>
#include <cmath>

namespace twinops {
namespace {

std::string attribute(const Call& call, const char* name) {
  return std::string(call.info().name) + ": " + name;
}

// The strides of `t` along x's axes, where dimension i of t lies along axis first + i of x.
Strides broadcast_strides(const Call& call, const char* name, const Tensor& t, const Tensor& x,
                          int first, const std::string& expected) {
  Strides strides(x.rank, 0);
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] == 1) continue;
    if (t.shape[i] != x.shape[first + i])
      call.refuse(call.where(name), expected + describe_shape(x) + "; got " + describe_shape(t));
    strides[first + i] = t.stride(i);
  }
  return strides;
}

void read_mask(const Call& call, const std::string& x_name, const Tensor& x, RowMask& read,
               MaskStrides& strides) {
  const Tensor* mask = call.optional_tensor("mask");
  strides.mask.assign(x.rank, 0);
  if (mask == nullptr) return;
  if (!row_mask_types(x.type).has(mask->type)) call.refuse_type("mask", to_dlpack(mask->type));
  if (mask->type == Type::boolean || mask->type == Type::uint8)
    read.kind = RowMask::Kind::excluded;
  else
    read.kind = mask->type == x.type ? RowMask::Kind::added : RowMask::Kind::added_float32;
  const std::string expected = "expected a shape that broadcasts to " + x_name + "'s, ";
  if (mask->rank > x.rank)
    call.refuse(call.where("mask"),
                expected + describe_shape(x) + "; got " + describe_shape(*mask));
  strides.mask = broadcast_strides(call, "mask", *mask, x, x.rank - mask->rank, expected);
  read.data = mask->data;
  read.type = mask->type;
}

void read_lengths(const Call& call, const std::string& x_name, const Tensor& x, int axis,
                  RowMask& read, MaskStrides& strides) {
  const Tensor* lengths = call.optional_tensor("lengths");
  strides.lengths.assign(x.rank, 0);
  if (lengths == nullptr) return;
  if (axis == 0)
    call.refuse(call.where("lengths"),
                "needs an axis of " + x_name + " before the one that rows lie along");
  const std::string expected = "expected the shape of " + x_name + "'s first dimensions, of ";
  if (lengths->rank < 1 || lengths->rank > axis)
    call.refuse(call.where("lengths"), "expected 1 to " + std::to_string(axis) +
                                           " dimensions, those of " + x_name +
                                           " before its axis; got " + describe_shape(*lengths));
  strides.lengths = broadcast_strides(call, "lengths", *lengths, x, 0, expected);
  read.lengths = lengths->data;
  read.wide_lengths = lengths->type == Type::int64;
}

}  // namespace

RowMask read_row_mask(const Call& call, const char* x_name, const Tensor& x, int axis,
                      MaskStrides& strides) {
  RowMask read;
  read_mask(call, x_name, x, read, strides);
  read_lengths(call, x_name, x, axis, read, strides);
  read.causal = call.flag("causal");
  // Beyond any index, and far from where adding one overflows.
  constexpr std::int64_t kFar = std::int64_t{1} << 61;
  read.causal_offset = std::clamp(call.integer("causal_offset"), -kFar, kFar);
  strides.query.assign(x.rank, 0);
  if (!read.causal) {
    if (read.causal_offset != 0)
      call.refuse(attribute(call, "causal_offset"), "is given without causal");
    return read;
  }
  if (x.rank < 2 || axis != x.rank - 1)
    call.refuse(attribute(call, "causal"),
                "needs rows along the last axis and an axis before it; got axis " +
                    std::to_string(axis) + " of a tensor of shape " + describe_shape(x));
  strides.query[x.rank - 2] = 1;
  return read;
}

double read_scale(const Call& call, Type type) {
  const double asked = call.real("scale");
  const double scale = type == Type::float64 ? asked : static_cast<float>(asked);
  if (!std::isfinite(scale))
    call.refuse(attribute(call, "scale"), "expected a number that is finite in the type that " +
                                              std::string(name(type)) + " is computed in; got " +
                                              describe(asked));
  return scale;
}

}  // namespace twinops
