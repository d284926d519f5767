#include "operators/softmax.hpp"

#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr ArgumentInfo kArguments[] = {
    {"x", Direction::input, Form::tensor, true, kFloatingTypes,
     "A tensor of one dimension or more, any strides."},
    {"out", Direction::output, Form::tensor, true, kFloatingTypes,
     "x's shape; x's type, or float32 for a 16-bit x, or 16-bit for a float32 x. May be x itself."},
};
constexpr AttributeInfo kAttributes[] = {
    {"axis", AttributeValue::of(std::int64_t{-1}), nullptr,
     "The axis that rows lie along; counted from the end if negative."},
    {"masked_rows", AttributeValue::of("nan"), "nan|zeros",
     "What a row of nothing but -infinity gives: NaN, or probabilities of 0."},
};

SoftmaxArguments parse_softmax(const Call& call) {
  SoftmaxArguments arguments{call.tensor("x").data, call.tensor("out").data,
                             read_type_pair(call, "x", "out"), read_rows<2>(call, {"out", "x"}),
                             call.text("masked_rows") == "zeros"};
  constexpr InPlace kInPlace[] = {{"out", "x"}};
  refuse_overlaps(call, kInPlace);
  return arguments;
}

}  // namespace

const OperatorInfo Softmax::info{"softmax", "exp(x) / sum(exp(x)) along one axis.", kArguments,
                                 kAttributes};
const OperatorInfo LogSoftmax::info{"log_softmax", "x - log(sum(exp(x))) along one axis.",
                                    kArguments, kAttributes};

SoftmaxArguments Softmax::parse(const Call& call) { return parse_softmax(call); }
SoftmaxArguments LogSoftmax::parse(const Call& call) { return parse_softmax(call); }

}  // namespace twinops
