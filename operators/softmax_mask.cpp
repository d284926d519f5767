#include "operators/softmax_mask.hpp"

#include <algorithm>
#include <cmath>

#include "operators/call.hpp"
#include "operators/describe.hpp"

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

// A mask or a bias, and its strides along x's axes.
struct Given {
  const Tensor* tensor;
  Strides strides;
};
Given read_given(const Call& call, const char* name, TypeSet types, const std::string& x_name,
                 const Tensor& x) {
  Given given{call.optional_tensor(name), Strides(x.rank, 0)};
  if (given.tensor == nullptr) return given;
  const Tensor& t = *given.tensor;
  if (!types.has(t.type)) call.refuse_type(name, to_dlpack(t.type));
  const std::string expected = "expected a shape that broadcasts to " + x_name + "'s, ";
  if (t.rank > x.rank)
    call.refuse(call.where(name), expected + describe_shape(x) + "; got " + describe_shape(t));
  given.strides = broadcast_strides(call, name, t, x, x.rank - t.rank, expected);
  return given;
}

bool is_of_bytes(const Tensor& mask) {
  return mask.type == Type::boolean || mask.type == Type::uint8;
}

// The type of one mask for both. Beside bytes a bias keeps its type; a sum is of the compute type.
Type type_of_combined(MaskUse use, const Tensor& bias, const Tensor& mask) {
  if (use == MaskUse::gradient) return Type::uint8;
  if (is_of_bytes(mask)) return bias.type;
  return bias.type == Type::float64 ? Type::float64 : Type::float32;
}

// The axes along which either has more than one element, without gaps. Returns the strides of what
// is made along x's axes.
Strides combine(const Call& call, const Given& bias, const Given& mask, const Tensor& x,
                CombinedMask& combined) {
  combined.is_asked = true;
  combined.bias = {bias.tensor->data, bias.tensor->type};
  combined.mask = {mask.tensor->data, mask.tensor->type};
  Strides made(x.rank, 0);
  if (x.elements == 0) return made;
  Strides shape, of[CombinedMask::kOperands];
  std::int64_t elements = 1;
  for (int axis = x.rank - 1; axis >= 0; --axis) {
    if (bias.strides[axis] == 0 && mask.strides[axis] == 0) continue;
    made[axis] = elements;
    elements *= x.shape[axis];
    shape.push_back(x.shape[axis]);
    of[CombinedMask::kMade].push_back(made[axis]);
    of[CombinedMask::kBias].push_back(bias.strides[axis]);
    of[CombinedMask::kMask].push_back(mask.strides[axis]);
  }
  combined.elements = elements;
  if (!collapse<CombinedMask::kOperands>(combined.axes, static_cast<int>(shape.size()),
                                         shape.data(), {of[0].data(), of[1].data(), of[2].data()}))
    call.refuse(call.where("bias"), "its strides and those of mask need more than " +
                                        std::to_string(kMaxAxes) + " axes");
  return made;
}

void read_mask_and_bias(const Call& call, MaskUse use, const std::string& x_name, const Tensor& x,
                        RowMask& read, MaskStrides& strides, CombinedMask& combined) {
  const Given mask = read_given(call, "mask", row_mask_types(x.type), x_name, x);
  const Given bias = read_given(call, "bias", bias_types(x.type), x_name, x);
  const Given& only = mask.tensor != nullptr ? mask : bias;
  strides.mask = only.strides;
  if (only.tensor == nullptr) return;
  read.data = only.tensor->data;
  read.type = only.tensor->type;
  if (mask.tensor != nullptr && bias.tensor != nullptr) {
    strides.mask = combine(call, bias, mask, x, combined);
    read.type = combined.type = type_of_combined(use, *bias.tensor, *mask.tensor);
    read.data = nullptr;
  }
  if (read.type == Type::boolean || read.type == Type::uint8)
    read.kind = RowMask::Kind::excluded;
  else
    read.kind = read.type == x.type ? RowMask::Kind::added : RowMask::Kind::added_float32;
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

RowMask read_row_mask(const Call& call, MaskUse use, const char* x_name, const Tensor& x, int axis,
                      MaskStrides& strides, CombinedMask& combined) {
  RowMask read;
  read_mask_and_bias(call, use, x_name, x, read, strides, combined);
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
