#include "operators/update_loss_scaling.hpp"

#include <cmath>
#include <limits>

#include "operators/call.hpp"
#include "operators/describe.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr TypeSet kFlag{Type::boolean, Type::uint8, Type::float32};
constexpr TypeSet kScale{Type::float32, Type::float64};
constexpr ArgumentInfo kArguments[] = {
    {"x", Direction::input, Form::list, true, kFloatingTypes,
     "Tensors of any shape, strides and mix of types: the unscaled gradients."},
    {"found_inf", Direction::input, Form::tensor, true, kFlag,
     "One element, of check_finite_and_unscale: 0, or anything else for found."},
    {"scale", Direction::input, Form::tensor, true, kScale, "One element: the loss scale."},
    {"good_steps",
     Direction::input,
     Form::tensor,
     true,
     {Type::int32},
     "One element: finite steps since the scale changed or a value was not finite."},
    {"bad_steps",
     Direction::input,
     Form::tensor,
     true,
     {Type::int32},
     "One element: steps in a row with a value that is not finite."},
    {"out", Direction::output, Form::list, true, kFloatingTypes,
     "x[i], or +0 throughout if found_inf. May be x[i] itself."},
    {"scale_out", Direction::output, Form::tensor, true, kScale,
     "One element of scale's type: the next loss scale. May be scale itself."},
    {"good_steps_out",
     Direction::output,
     Form::tensor,
     true,
     {Type::int32},
     "One element. May be good_steps itself."},
    {"bad_steps_out",
     Direction::output,
     Form::tensor,
     true,
     {Type::int32},
     "One element. May be bad_steps itself."},
};
constexpr AttributeInfo kAttributes[] = {
    {"incr_every_n_steps", AttributeValue::of(std::int64_t{1000}), nullptr,
     "Raise the scale after this many finite steps; 1 or more."},
    {"decr_every_n_nan_or_inf", AttributeValue::of(std::int64_t{2}), nullptr,
     "Lower the scale after this many steps in a row that are not finite; 1 or more."},
    {"incr_ratio", AttributeValue::of(2.0), nullptr,
     "The scale is raised by this factor; above 1."},
    {"decr_ratio", AttributeValue::of(0.5), nullptr,
     "The scale is lowered by this factor, not below min_scale; between 0 and 1."},
    {"stop_update", AttributeValue::of(false), nullptr,
     "Leave scale and step counts as they are; only zero the tensors."},
    {"min_scale", AttributeValue::of(1.0), nullptr,
     "The scale is not lowered below this; finite, above 0. A scale that is below it stays."},
};

std::int32_t read_count(const Call& call, const char* attribute) {
  const std::int64_t n = call.integer(attribute);
  if (n < 1 || n > std::numeric_limits<std::int32_t>::max())
    call.refuse(std::string(call.info().name) + ": " + attribute,
                "expected 1 to 2147483647; got " + std::to_string(n));
  return static_cast<std::int32_t>(n);
}

float read_float(const Call& call, const char* attribute, bool (*allowed)(float),
                 const char* rule) {
  const auto number = static_cast<float>(call.real(attribute));
  if (!allowed(number))
    call.refuse(std::string(call.info().name) + ": " + attribute,
                std::string("expected ") + rule + "; got " + describe(call.real(attribute)));
  return number;
}

}  // namespace

const OperatorInfo UpdateLossScaling::info{
    "update_loss_scaling",
    "Takes one step of dynamic loss scaling, and zeroes the tensors of a step that overflowed.",
    kArguments, kAttributes};

UpdateLossScaling::Arguments UpdateLossScaling::parse(const Call& call) {
  const Tensor& found_inf = read_scalar(call, "found_inf");
  const Tensor& scale = read_scalar(call, "scale");
  const Tensor& scale_out = read_scalar(call, "scale_out");
  if (scale.type != scale_out.type)
    call.refuse(call.where("scale_out"), std::string("expected the type of scale, ") +
                                             name(scale.type) + "; got " + name(scale_out.type));
  const LossScaleRule rule{
      read_count(call, "incr_every_n_steps"), read_count(call, "decr_every_n_nan_or_inf"),
      read_float(
          call, "incr_ratio", [](float r) { return r > 1 && is_finite<float>(r); },
          "a finite number above 1"),
      read_float(
          call, "decr_ratio", [](float r) { return r > 0 && r < 1; }, "a number between 0 and 1"),
      read_float(
          call, "min_scale", [](float r) { return r > 0 && is_finite<float>(r); },
          "a finite number above 0")};
  Arguments arguments{TensorList(call, "x", "out"),
                      found_inf.data,
                      found_inf.type,
                      scale.type,
                      scale.data,
                      static_cast<const std::int32_t*>(read_scalar(call, "good_steps").data),
                      static_cast<const std::int32_t*>(read_scalar(call, "bad_steps").data),
                      scale_out.data,
                      static_cast<std::int32_t*>(read_scalar(call, "good_steps_out").data),
                      static_cast<std::int32_t*>(read_scalar(call, "bad_steps_out").data),
                      rule,
                      call.flag("stop_update")};
  constexpr InPlace kInPlace[] = {{"out", "x"},
                                  {"scale_out", "scale"},
                                  {"good_steps_out", "good_steps"},
                                  {"bad_steps_out", "bad_steps"}};
  refuse_overlaps(call, kInPlace);
  return arguments;
}

}  // namespace twinops
