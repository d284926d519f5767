#include "operators/bias_dropout_residual.hpp"

#include "operators/call.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments =
    join(std::array<ArgumentInfo, 5>{{
             {"x", Direction::input, Form::tensor, true, kFloatingTypes,
              "A tensor of any shape and strides."},
             {"bias", Direction::input, Form::tensor, false, kFloatingTypes,
              "Of x's type, and of a shape that broadcasts to x's.", "x", same_type},
             {"residual", Direction::input, Form::tensor, false, kFloatingTypes,
              "Of x's shape and type.", "x", same_type},
             {"y", Direction::output, Form::tensor, true, kFloatingTypes,
              "dropout(x + bias) + residual, of x's shape and type. May be x or residual itself."},
             {"mask", Direction::output, Form::tensor, false, kMaskTypes,
              "1 = kept, as dropout's: uint32[ceil(n / 32)], or bool or uint8 of x's shape."},
         }},
         kRandomArguments);

}  // namespace

const OperatorInfo BiasDropoutResidual::info{
    "bias_dropout_residual", "Adds a bias, drops elements at random, adds a residual.", kArguments,
    kDropoutAttributes};

BiasDropoutResidual::Arguments BiasDropoutResidual::parse(const Call& call) {
  return read_dropout(call, {"x", "y", "mask", "bias", "residual", false});
}

}  // namespace twinops
