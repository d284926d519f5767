#include "operators/philox_words.hpp"

#include "operators/call.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments =
    join(std::array<ArgumentInfo, 1>{{{"words",
                                       Direction::output,
                                       Form::tensor,
                                       true,
                                       {Type::uint32},
                                       "Of any shape and strides: each element's 32-bit word."}}},
         kRandomArguments);

}  // namespace

const OperatorInfo PhiloxWords::info{"philox_words",
                                     "The random 32-bit words that the elements of a tensor draw.",
                                     kArguments, kRandomAttributes};

PhiloxWords::Arguments PhiloxWords::parse(const Call& call) {
  return read_random_fill(call, "words");
}

}  // namespace twinops
