#include "operators/softmax_grad.hpp"

#include "operators/call.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments =
    join(std::array<ArgumentInfo, 3>{{
             {"y", Direction::input, Form::tensor, true, kFloatingTypes,
              "What the forward pass gave; one dimension or more, any strides."},
             {"dy", Direction::input, Form::tensor, true, kFloatingTypes,
              "The gradient with respect to y: y's shape and type."},
             {"dx", Direction::output, Form::tensor, true, kFloatingTypes,
              "The gradient with respect to x: y's shape; y's type, or float32 for a 16-bit y, or "
              "16-bit "
              "for a float32 y. May be dy or y itself."},
         }},
         join(kGradMaskArguments, kGradBiasArguments));
SoftmaxGradArguments parse_grad(const Call& call) {
  const Strides none(call.tensor("y").rank, 0);
  const SoftmaxGradArguments arguments = read_softmax_grad(call, "y", none).arguments;
  constexpr InPlace kInPlace[] = {{"dx", "dy"}, {"dx", "y"}};
  refuse_overlaps(call, kInPlace);
  return arguments;
}

}  // namespace

SoftmaxGradCall read_softmax_grad(const Call& call, const char* y_name, const Strides& more) {
  const Tensor &y = call.tensor(y_name), &dy = call.tensor("dy"), &dx = call.tensor("dx");
  if (dy.type != y.type)
    call.refuse(call.where("dy"), std::string("expected the type of ") + y_name + ", " +
                                      name(y.type) + "; got " + name(dy.type));
  expect_shape(call, "dy", y_name);
  const TypePair types = read_type_pair(call, y_name, "dx");
  const int axis = read_axis(call, y.rank);
  expect_shape(call, "dx", y_name);
  MaskStrides mask_strides;
  CombinedMask combined;
  RowMask mask = read_row_mask(call, MaskUse::gradient, "dx", dx, axis, mask_strides, combined);
  const BroadcastSums dmask = read_broadcast_sums(call, "dmask", "mask", dx);
  const BroadcastSums dbias = read_broadcast_sums(call, "dbias", "bias", dx);
  const Strides packed = dmask.asked() || dbias.asked() ? row_major(dx) : Strides(dx.rank, 0);
  const Rows<8> rows =
      read_rows<8>(call, "dx", y, axis,
                   {strides_of(dx), strides_of(y), strides_of(dy), mask_strides.mask,
                    mask_strides.lengths, mask_strides.query, packed, more});
  mask.step = rows.step[3];
  const Rows<3> own{rows.rows,
                    rows.length,
                    {rows.step[0], rows.step[1], rows.step[2]},
                    operands_of<0, 3>(rows.outer)};
  return {{y.data, dy.data, dx.data, types, own, read_scale(call, y.type), mask,
           operands_of<3, RowMask::kOperands>(rows.outer), combined, dmask, dbias,
           operands_of<6, 1>(rows.outer), rows.step[6]},
          operands_of<7, 1>(rows.outer),
          rows.step[7]};
}

const OperatorInfo SoftmaxGrad::info{"softmax_grad",
                                     "dx = scale y (dy - sum(y dy)) along one axis.", kArguments,
                                     kSoftmaxGradAttributes};
const OperatorInfo LogSoftmaxGrad::info{
    "log_softmax_grad", "dx = scale (dy - exp(y) sum(dy)) along one axis; y is log_softmax's.",
    kArguments, kSoftmaxGradAttributes};

SoftmaxGradArguments SoftmaxGrad::parse(const Call& call) { return parse_grad(call); }
SoftmaxGradArguments LogSoftmaxGrad::parse(const Call& call) { return parse_grad(call); }

}  // namespace twinops
