// softmax_dropout_grad: dropout's kernel from dy to dx, then softmax_grad's over dx in place. Where
// dx is of another type than dy, what lies between them is scratch memory.
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/broadcast_sums.hpp"
#include "operators/dropout_grad.hpp"
#include "operators/softmax_dropout_grad.hpp"

namespace twinops {

template <>
void run_cuda<SoftmaxDropoutGrad>(const SoftmaxDropoutGradArguments& a, Execution& execution) {
  DropoutWork dropout = a.dropout;
  SoftmaxGradArguments softmax = a.softmax;
  if (execution.allocate == nullptr)  // before anything is written
    const Workspace refused(
        execution,
        scratch_of_sums(softmax) + softmax.combined.bytes() +
            (softmax.sums_asked() && softmax.needs_packed() ? softmax.packed_bytes() : 0));
  if (dropout.y != nullptr) {
    run_cuda<DropoutGrad>(dropout, execution);
    softmax.dy = softmax.dx;
    softmax.rows.step[2] = softmax.rows.step[0];
    for (int axis = 0; axis < softmax.rows.outer.rank; ++axis)
      softmax.rows.outer.stride[2][axis] = softmax.rows.outer.stride[0][axis];
    run_cuda<SoftmaxGrad>(softmax, execution);
    return;
  }
  const Workspace between(execution,
                          static_cast<std::size_t>(dropout.elements) * size_of(dropout.type));
  dropout.y = between.data();
  run_cuda<DropoutGrad>(dropout, execution);
  softmax.dy = between.data();
  softmax.rows.step[2] = a.step;
  for (int axis = 0; axis < softmax.rows.outer.rank; ++axis)
    softmax.rows.outer.stride[2][axis] = a.outer.stride[0][axis];
  run_cuda<SoftmaxGrad>(softmax, execution);
}

}  // namespace twinops
