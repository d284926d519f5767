#include "operators/softmax_grad.hpp"

#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr ArgumentInfo kArguments[] = {
    {"y", Direction::input, Form::tensor, true, kFloatingTypes,
     "What the forward pass gave; one dimension or more, any strides."},
    {"dy", Direction::input, Form::tensor, true, kFloatingTypes,
     "The gradient with respect to y: y's shape and type."},
    {"dx", Direction::output, Form::tensor, true, kFloatingTypes,
     "The gradient with respect to x: y's shape; y's type, or float32 for a 16-bit y, or 16-bit "
     "for "
     "a float32 y. May be dy or y itself."},
};
constexpr AttributeInfo kAttributes[] = {
    {"axis", AttributeValue::of(std::int64_t{-1}), nullptr,
     "The axis that rows lie along; counted from the end if negative."},
};

SoftmaxGradArguments parse_grad(const Call& call) {
  const Tensor &y = call.tensor("y"), &dy = call.tensor("dy");
  if (dy.type != y.type)
    call.refuse(call.where("dy"),
                std::string("expected the type of y, ") + name(y.type) + "; got " + name(dy.type));
  if (!same_shape(dy, y))
    call.refuse(call.where("dy"),
                "expected the shape of y, " + describe_shape(y) + "; got " + describe_shape(dy));
  SoftmaxGradArguments arguments{y.data, dy.data, call.tensor("dx").data,
                                 read_type_pair(call, "y", "dx"),
                                 read_rows<3>(call, {"dx", "y", "dy"})};
  constexpr InPlace kInPlace[] = {{"dx", "dy"}, {"dx", "y"}};
  refuse_overlaps(call, kInPlace);
  return arguments;
}

}  // namespace

const OperatorInfo SoftmaxGrad::info{"softmax_grad", "dx = y (dy - sum(y dy)) along one axis.",
                                     kArguments, kAttributes};
const OperatorInfo LogSoftmaxGrad::info{
    "log_softmax_grad", "dx = dy - exp(y) sum(dy) along one axis; y is log_softmax's.", kArguments,
    kAttributes};

SoftmaxGradArguments SoftmaxGrad::parse(const Call& call) { return parse_grad(call); }
SoftmaxGradArguments LogSoftmaxGrad::parse(const Call& call) { return parse_grad(call); }

}  // namespace twinops
