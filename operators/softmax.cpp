#include "operators/softmax.hpp"

#include "operators/call.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments =
    join(std::array<ArgumentInfo, 2>{{
             {"x", Direction::input, Form::tensor, true, kFloatingTypes,
              "A tensor of one dimension or more, any strides."},
             {"out", Direction::output, Form::tensor, true, kFloatingTypes,
              "x's shape; x's type, or float32 for a 16-bit x, or 16-bit for a float32 x. May be x "
              "itself."},
         }},
         join(kRowMaskArguments, kBiasArguments));

SoftmaxArguments parse_softmax(const Call& call) {
  const Strides none(call.tensor("x").rank, 0);
  const SoftmaxArguments arguments = read_softmax(call, "out", {none, none}).arguments;
  constexpr InPlace kInPlace[] = {{"out", "x"}};
  refuse_overlaps(call, kInPlace);
  return arguments;
}

}  // namespace

SoftmaxCall read_softmax(const Call& call, const char* out_name,
                         const std::array<Strides, 2>& more) {
  const Tensor &x = call.tensor("x"), &out = call.tensor(out_name);
  const TypePair types = read_type_pair(call, "x", out_name);
  const int axis = read_axis(call, x.rank);
  expect_shape(call, out_name, "x");
  MaskStrides mask_strides;
  CombinedMask combined;
  RowMask mask = read_row_mask(call, MaskUse::forward, "x", x, axis, mask_strides, combined);
  const Rows<7> rows = read_rows<7>(call, out_name, x, axis,
                                    {strides_of(out), strides_of(x), mask_strides.mask,
                                     mask_strides.lengths, mask_strides.query, more[0], more[1]});
  mask.step = rows.step[2];
  const Rows<2> own{
      rows.rows, rows.length, {rows.step[0], rows.step[1]}, operands_of<0, 2>(rows.outer)};
  return {
      {x.data, out.data, types, own, call.text("masked_rows") == "zeros", read_scale(call, x.type),
       mask, operands_of<2, RowMask::kOperands>(rows.outer), combined},
      operands_of<5, 2>(rows.outer),
      {rows.step[5], rows.step[6]}};
}

const OperatorInfo Softmax::info{"softmax",
                                 "exp(v) / sum(exp(v)) along one axis; v = scale * x + mask.",
                                 kArguments, kSoftmaxAttributes};
const OperatorInfo LogSoftmax::info{"log_softmax",
                                    "v - log(sum(exp(v))) along one axis; v = scale * x + mask.",
                                    kArguments, kSoftmaxAttributes};

SoftmaxArguments Softmax::parse(const Call& call) { return parse_softmax(call); }
SoftmaxArguments LogSoftmax::parse(const Call& call) { return parse_softmax(call); }

}  // namespace twinops
