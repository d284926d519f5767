#include "operators/softmax_dropout.hpp"

#include "operators/call.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments = join(
    join(
        std::array<ArgumentInfo, 2>{{
            {"x", Direction::input, Form::tensor, true, kFloatingTypes,
             "A tensor of one dimension or more, any strides."},
            {"y", Direction::output, Form::tensor, true, kFloatingTypes,
             "dropout(softmax(x)): x's shape; x's type, or float32 for a 16-bit x, or 16-bit for a "
             "float32 x. May be x itself."},
        }},
        kRowMaskArguments),
    join(std::array<ArgumentInfo, 2>{{
             {"probabilities", Direction::output, Form::tensor, false, kFloatingTypes,
              "softmax(x), of y's shape and type: what the backward pass needs."},
             {"dropout_mask", Direction::output, Form::tensor, false, kMaskTypes,
              "1 = kept, as dropout's: uint32[ceil(n / 32)], or bool or uint8 of x's shape."},
         }},
         join(kRandomArguments, kBiasArguments)));
constexpr auto kAttributes = join(kSoftmaxAttributes, kDropoutAttributes);

// What dropout is taken of.
const char* read_probabilities(const Call& call) {
  const Tensor *p = call.optional_tensor("probabilities"), &y = call.tensor("y");
  if (p == nullptr) return "y";
  if (p->type != y.type)
    call.refuse(call.where("probabilities"),
                std::string("expected the type of y, ") + name(y.type) + "; got " + name(p->type));
  expect_shape(call, "probabilities", "y");
  return "probabilities";
}

}  // namespace

const OperatorInfo SoftmaxDropout::info{
    "softmax_dropout",
    "dropout(softmax(v)) along one axis, bit for bit as softmax and dropout one after the other.",
    kArguments, kAttributes};

SoftmaxDropoutArguments SoftmaxDropout::parse(const Call& call) {
  const Tensor &x = call.tensor("x"), &y = call.tensor("y");
  expect_shape(call, "y", "x");
  const char* p = read_probabilities(call);
  const SoftmaxCall softmax = read_softmax(call, p, {strides_of(y), row_major(x)});
  const DropoutNames names{p, "y", "dropout_mask", nullptr, nullptr, false};
  const DropoutWork dropout =
      read_dropout_work(call, names, call.tensor(p), {y.data, strides_of(y), y.contiguous});
  constexpr InPlace kInPlace[] = {{"y", "x"}};
  refuse_overlaps(call, kInPlace);
  return {softmax.arguments,
          p[0] == 'p',
          dropout,
          softmax.more,
          {softmax.more_step[0], softmax.more_step[1]}};
}

}  // namespace twinops
