#include "operators/uniform.hpp"

#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kWordArguments =
    join(std::array<ArgumentInfo, 1>{{{"words",
                                       Direction::output,
                                       Form::tensor,
                                       true,
                                       {Type::uint32},
                                       "Of any shape and strides: each element's 32-bit word."}}},
         kRandomArguments);

constexpr auto kUniformArguments =
    join(std::array<ArgumentInfo, 1>{{{"out",
                                       Direction::output,
                                       Form::tensor,
                                       true,
                                       {Type::float32},
                                       "Of any shape and strides: each element's number, in (0, 1] "
                                       "as cuRAND's; with layout triton in [0, 1) as Triton's."}}},
         kRandomArguments);

RandomFill read_fill(const Call& call, const char* name) {
  const Tensor& out = call.tensor(name);
  DrawStrides draws;
  RandomFill fill{out.data, out.elements, false, {}, read_random(call, out, draws)};
  refuse_overlaps(call, {});
  if (out.elements == 0) return fill;
  fill.flat = out.contiguous && fill.random.consecutive;
  std::vector<std::int64_t> logical(out.rank), strides(out.rank);
  std::int64_t step = 1;
  for (int i = out.rank - 1; i >= 0; --i) {
    logical[i] = step;
    strides[i] = out.stride(i);
    step *= out.shape[i];
  }
  if (!collapse<RandomFill::kOperands>(
          fill.walk, out.rank, out.shape,
          {logical.data(), strides.data(), draws.draw.data(), draws.row.data()}))
    call.refuse(call.where(name),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return fill;
}

}  // namespace

const OperatorInfo PhiloxWords::info{"philox_words",
                                     "The random 32-bit words that the elements of a tensor draw.",
                                     kWordArguments, kRandomAttributes};

const OperatorInfo Uniform::info{
    "uniform", "Random numbers, evenly spread from 0 to 1: cuRAND's or Triton's, bit for bit.",
    kUniformArguments, kRandomAttributes};

PhiloxWords::Arguments PhiloxWords::parse(const Call& call) { return read_fill(call, "words"); }
Uniform::Arguments Uniform::parse(const Call& call) { return read_fill(call, "out"); }

}  // namespace twinops
