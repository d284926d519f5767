#include "operators/dropout_grad.hpp"

#include "operators/call.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments = join(
    std::array<ArgumentInfo, 3>{{
        {"dy", Direction::input, Form::tensor, true, kFloatingTypes,
         "The gradient of y, of any shape and strides."},
        {"dx", Direction::output, Form::tensor, true, kFloatingTypes,
         "The gradient of x, of dy's shape and type. May be dy itself."},
        {"mask", Direction::input, Form::tensor, false, kMaskTypes,
         "The mask that dropout stored. Without one it is drawn again, from the same attributes."},
    }},
    kRandomArguments);

}  // namespace

const OperatorInfo DropoutGrad::info{
    "dropout_grad", "The gradient of dropout: drops and scales what dropout dropped and scaled.",
    kArguments, kDropoutAttributes};

DropoutGrad::Arguments DropoutGrad::parse(const Call& call) {
  return read_dropout(call, {"dy", "dx", "mask", nullptr, nullptr, true});
}

}  // namespace twinops
