#include "operators/dropout.hpp"

#include "operators/call.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments = join(
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

}  // namespace

const OperatorInfo Dropout::info{
    "dropout", "Drops elements of a tensor at random and scales those that are kept.", kArguments,
    kDropoutAttributes};

Dropout::Arguments Dropout::parse(const Call& call) {
  return read_dropout(call, {"x", "y", "mask", nullptr, nullptr, false});
}

}  // namespace twinops
