// softmax_grad and log_softmax_grad, all rows of a call: softmax_grad_op.hpp,
// softmax_grad_strided.hpp for rows along an axis that is not the last, or softmax_grad_masked.hpp
// under a mask. Compiled once for each instruction set.
#include "kernels_cpu/softmax/softmax_grad_op.hpp"

#include "kernels_cpu/softmax/softmax_grad_masked.hpp"
#include "kernels_cpu/softmax/softmax_grad_strided.hpp"

namespace twinops {

template <class Isa, class F>
void grad_rows(const SoftmaxGradArguments& a, const GradSteps<Isa, F>& steps,
               const GradSource* source, Execution& execution) {
  if (!a.mask.is_plain())
    return for_each_row(MaskedGradRows<Isa, F>(a, steps, source), execution, a.rows.rows,
                        a.rows.length);
  if (source != nullptr || !lie_side_by_side(a.rows))
    return for_each_row(GradRows<Isa, F>(a, steps, source), execution, a.rows.rows, a.rows.length);
  const std::int64_t run = neighbours_of(a.rows), runs = a.rows.rows / run * a.rows.length;
  const bool streamed = a.dx != a.y && a.dx != a.dy && is_streamed(steps.out_bytes, runs, run);
  using Strided = StridedGradRows<Isa, F>;
  for_each_tile(Strided(a, steps, streamed), execution, a.rows, Strided::kCapacity);
}

template void grad_rows<isa::TWINOPS_ISA, float>(const SoftmaxGradArguments&,
                                                 const GradSteps<isa::TWINOPS_ISA, float>&,
                                                 const GradSource*, Execution&);
template void grad_rows<isa::TWINOPS_ISA, double>(const SoftmaxGradArguments&,
                                                  const GradSteps<isa::TWINOPS_ISA, double>&,
                                                  const GradSource*, Execution&);

}  // namespace twinops
