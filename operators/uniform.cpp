#include "operators/uniform.hpp"

#include "operators/call.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments =
    join(std::array<ArgumentInfo, 1>{{{"out",
                                       Direction::output,
                                       Form::tensor,
                                       true,
                                       {Type::float32},
                                       "Of any shape and strides: each element's number, in (0, 1] "
                                       "as cuRAND's; with layout triton in [0, 1) as Triton's."}}},
         kRandomArguments);

}  // namespace

const OperatorInfo Uniform::info{
    "uniform", "Random numbers, evenly spread from 0 to 1: cuRAND's or Triton's, bit for bit.",
    kArguments, kRandomAttributes};

Uniform::Arguments Uniform::parse(const Call& call) { return read_random_fill(call, "out"); }

}  // namespace twinops
