#include "operators/bias_dropout_residual_grad.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr auto kArguments = join(
    std::array<ArgumentInfo, 4>{{
        {"dy", Direction::input, Form::tensor, true, kFloatingTypes,
         "The gradient of y, which is that of residual too; of any shape and strides."},
        {"dx", Direction::output, Form::tensor, true, kFloatingTypes,
         "The gradient of x, and of a bias of x's shape. May be dy itself."},
        {"dbias", Direction::output, Form::tensor, false, kFloatingTypes,
         "The gradient of a bias of the last dimension's shape: the sum of dx over all other axes. "
         "dx must be without gaps."},
        {"mask", Direction::input, Form::tensor, false, kMaskTypes,
         "The mask that the forward pass stored. Without one it is drawn again."},
    }},
    kRandomArguments);

ColumnSums read_dbias(const Call& call) {
  const Tensor& dx = call.tensor("dx");
  const Tensor* dbias = call.optional_tensor("dbias");
  ColumnSums sums{dx.type, dx.data, nullptr, 0, 0};
  if (dbias == nullptr) return sums;
  if (dx.rank == 0) call.refuse(call.where("dbias"), "dx has no last dimension");
  sums.columns = dx.shape[dx.rank - 1];
  sums.rows = sums.columns == 0 ? 0 : dx.elements / sums.columns;
  if (dbias->type != dx.type || dbias->rank != 1 || dbias->shape[0] != sums.columns)
    call.refuse(call.where("dbias"), std::string("expected ") + name(dx.type) + "[" +
                                         std::to_string(sums.columns) + "]; got " +
                                         name(dbias->type) + describe_shape(*dbias));
  if (!dbias->contiguous) call.refuse(call.where("dbias"), "expected a tensor without gaps");
  if (!dx.contiguous) call.refuse(call.where("dx"), "has gaps, but dbias is asked for");
  sums.sums = sums.columns == 0 ? nullptr : dbias->data;
  return sums;
}

}  // namespace

const OperatorInfo BiasDropoutResidualGrad::info{"bias_dropout_residual_grad",
                                                 "The gradients of bias_dropout_residual.",
                                                 kArguments, kDropoutAttributes};

BiasDropoutResidualGrad::Arguments BiasDropoutResidualGrad::parse(const Call& call) {
  const ColumnSums sums = read_dbias(call);
  return {read_dropout(call, {"dy", "dx", "mask", nullptr, nullptr, true}), sums};
}

}  // namespace twinops
