#include "operators/dropout.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kForwardArguments = join(
    std::array<ArgumentInfo, 3>{{
        {"x", Direction::input, Form::tensor, true, kFloatingTypes,
         "A tensor of any shape and strides."},
        {"y", Direction::output, Form::tensor, true, kFloatingTypes,
         "x with elements dropped, of x's shape and type. May be x itself."},
        {"mask", Direction::output, Form::tensor, false, kMaskTypes,
         "1 = kept, in row-major order without gaps. uint32[ceil(n / 32)]: a bit an element, least "
         "significant first; bool or uint8 of x's shape: a byte an element."},
    }},
    kRandomArguments);

constexpr auto kBackwardArguments = join(
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

const OperatorInfo Dropout::info{
    "dropout", "Drops elements of a tensor at random and scales those that are kept.",
    kForwardArguments, kDropoutAttributes};

const OperatorInfo DropoutGrad::info{
    "dropout_grad", "The gradient of dropout: drops and scales what dropout dropped and scaled.",
    kBackwardArguments, kDropoutAttributes};

Dropout::Arguments Dropout::parse(const Call& call) {
  return read_dropout(call, {"x", "y", "mask", nullptr, nullptr, false});
}

DropoutGrad::Arguments DropoutGrad::parse(const Call& call) {
  return read_dropout(call, {"dy", "dx", "mask", nullptr, nullptr, true});
}

}  // namespace twinops
