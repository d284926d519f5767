#include "operators/check_finite_and_unscale.hpp"

#include "operators/call.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr ArgumentInfo kArguments[] = {
    {"x", Direction::input, Form::list, true, kFloatingTypes,
     "Tensors of any shape, strides and mix of types."},
    {"scale",
     Direction::input,
     Form::tensor,
     true,
     {Type::float32, Type::float64},
     "One element: what the loss was multiplied with."},
    {"out", Direction::output, Form::list, true, kFloatingTypes,
     "x[i] / scale, of x[i]'s shape and type. May be x[i] itself."},
    {"found_inf",
     Direction::output,
     Form::tensor,
     true,
     {Type::boolean, Type::uint8, Type::float32},
     "One element: set to 1 if a value is not finite, else left alone (see reset)."},
};
constexpr AttributeInfo kAttributes[] = {
    {"check", AttributeValue::of("output"), "output|input",
     "Which values must be finite: those stored, or those read."},
    {"reset", AttributeValue::of(false), nullptr,
     "Start fresh: found_inf becomes 0 unless a value is not finite."},
};

}  // namespace

const OperatorInfo CheckFiniteAndUnscale::info{
    "check_finite_and_unscale",
    "Multiplies every tensor of a list with 1 / scale and says whether any value is not finite.",
    kArguments, kAttributes};

CheckFiniteAndUnscale::Arguments CheckFiniteAndUnscale::parse(const Call& call) {
  const Tensor& scale = read_scalar(call, "scale");
  const Tensor& found_inf = read_scalar(call, "found_inf");
  Arguments arguments{
      TensorList(call, "x", "out"),  scale.data,        scale.type, found_inf.data, found_inf.type,
      call.text("check") == "input", call.flag("reset")};
  constexpr InPlace kInPlace[] = {{"out", "x"}};
  refuse_overlaps(call, kInPlace);
  return arguments;
}

}  // namespace twinops
