#include "operators/softmax_dropout_grad.hpp"

#include "operators/call.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments = join(
    join(std::array<ArgumentInfo, 4>{{
             {"probabilities", Direction::input, Form::tensor, true, kFloatingTypes,
              "What softmax_dropout kept; one dimension or more, any strides."},
             {"dy", Direction::input, Form::tensor, true, kFloatingTypes,
              "The gradient with respect to y: of the shape and type of probabilities."},
             {"dx", Direction::output, Form::tensor, true, kFloatingTypes,
              "The gradient with respect to x: the shape of dy; its type, or float32 for a 16-bit "
              "dy, or 16-bit for a float32 dy. May be dy itself."},
             {"dropout_mask", Direction::input, Form::tensor, false, kMaskTypes,
              "The mask that softmax_dropout stored. Without one it is drawn again, from the same "
              "attributes."},
         }},
         kGradMaskArguments),
    join(kRandomArguments, kGradBiasArguments));
constexpr auto kAttributes = join(kSoftmaxGradAttributes, kDropoutAttributes);

}  // namespace

const OperatorInfo SoftmaxDropoutGrad::info{
    "softmax_dropout_grad",
    "The gradient of softmax_dropout: dropout_grad and softmax_grad one after the other.",
    kArguments, kAttributes};

SoftmaxDropoutGradArguments SoftmaxDropoutGrad::parse(const Call& call) {
  const Tensor &p = call.tensor("probabilities"), &dy = call.tensor("dy"), &dx = call.tensor("dx");
  const SoftmaxGradCall softmax = read_softmax_grad(call, "probabilities", row_major(p));
  const DropoutTarget target = dx.type == dy.type
                                   ? DropoutTarget{dx.data, strides_of(dx), dx.contiguous}
                                   : DropoutTarget{nullptr, row_major(dx), true};
  const DropoutNames names{"dy", "dx", "dropout_mask", nullptr, nullptr, true};
  const DropoutWork dropout = read_dropout_work(call, names, dy, target);
  constexpr InPlace kInPlace[] = {{"dx", "dy"}};
  refuse_overlaps(call, kInPlace);
  return {softmax.arguments, dropout, softmax.more, softmax.more_step};
}

}  // namespace twinops
