#include "operators/bias_dropout_residual_grad.hpp"

#include <iterator>

#include "operators/call.hpp"
#include "operators/describe.hpp"

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
         "The gradient of a bias, of a shape that broadcasts to dx's: the sum of dx over the axes "
         "along which it was broadcast. dx must be without gaps."},
        {"mask", Direction::input, Form::tensor, false, kMaskTypes,
         "The mask that the forward pass stored. Without one it is drawn again."},
    }},
    kRandomArguments);

// The groups of axes along which dbias has elements and is summed by turns; false if there are more
// than ColumnSums has.
bool group_axes(const Tensor& dx, const Tensor& dbias, ColumnSums& sums) {
  std::int64_t* const groups[] = {&sums.of_columns[0], &sums.of_rows[0], &sums.of_columns[1],
                                  &sums.of_rows[1], &sums.of_columns[2]};
  int group = 0;
  for (int axis = 0; axis < dx.rank; ++axis) {
    if (dx.shape[axis] == 1) continue;
    const int i = axis - (dx.rank - dbias.rank);
    const bool summed = i < 0 || dbias.shape[i] == 1;
    if ((group % 2 == 1) != summed && ++group == std::ssize(groups)) return false;
    if (dx.elements != 0) *groups[group] *= dx.shape[axis];  // products fit 64 bits
  }
  return true;
}

ColumnSums read_dbias(const Call& call) {
  const Tensor& dx = call.tensor("dx");
  const Tensor* dbias = call.optional_tensor("dbias");
  ColumnSums sums{dx.type, dx.data, nullptr, 0, 0, {1, 1}, {1, 1, 1}};
  if (dbias == nullptr) return sums;
  if (dbias->type != dx.type)
    call.refuse(call.where("dbias"), std::string("expected the type of dx, ") + name(dx.type) +
                                         "; got " + name(dbias->type));
  for (int i = 0; i < dbias->rank; ++i) {
    const int axis = dx.rank - dbias->rank + i;
    if (dbias->shape[i] != 1 && (axis < 0 || dbias->shape[i] != dx.shape[axis]))
      call.refuse(call.where("dbias"), "expected a shape that broadcasts to dx's, " +
                                           describe_shape(dx) + "; got " + describe_shape(*dbias));
  }
  if (!dbias->contiguous) call.refuse(call.where("dbias"), "expected a tensor without gaps");
  if (!dx.contiguous) call.refuse(call.where("dx"), "has gaps, but dbias is asked for");
  if (!group_axes(dx, *dbias, sums))
    call.refuse(call.where("dbias"),
                "expected one that is summed over axes that lie in at most two groups side by side "
                "in dx, " +
                    describe_shape(dx) + "; got " + describe_shape(*dbias) +
                    ": sum dx in two steps");
  sums.rows = dx.elements == 0 ? 0 : sums.of_rows[0] * sums.of_rows[1];
  sums.columns = dbias->elements;
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
