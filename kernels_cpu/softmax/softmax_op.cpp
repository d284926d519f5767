// softmax and log_softmax, all rows of a call: softmax_op.hpp, or softmax_strided.hpp for rows
// along an axis that is not the last. Compiled once for each instruction set.
#include "kernels_cpu/softmax/softmax_op.hpp"

#include "kernels_cpu/softmax/softmax_strided.hpp"

namespace twinops {

template <class Isa, class F>
void softmax_rows(const SoftmaxArguments& a, const SoftmaxSteps<Isa, F>& steps,
                  const SoftmaxSink* sink, Execution& execution) {
  const SoftmaxRows<Isa, F> rows(a, steps, sink);
  if (sink != nullptr || !a.is_plain() || !lie_side_by_side(a.rows))
    return for_each_row(rows, execution, a.rows.rows, a.rows.length);
  const std::int64_t run = neighbours_of(a.rows), runs = a.rows.rows / run * a.rows.length;
  const bool streamed = a.out != a.x && is_streamed(steps.out_bytes, runs, run);
  for_each_tile(StridedSoftmaxRows<Isa, F>(a, steps, streamed, rows), execution, a.rows,
                SoftmaxTile<Isa, F>::kCapacity);
}

template void softmax_rows<isa::TWINOPS_ISA, float>(const SoftmaxArguments&,
                                                    const SoftmaxSteps<isa::TWINOPS_ISA, float>&,
                                                    const SoftmaxSink*, Execution&);
template void softmax_rows<isa::TWINOPS_ISA, double>(const SoftmaxArguments&,
                                                     const SoftmaxSteps<isa::TWINOPS_ISA, double>&,
                                                     const SoftmaxSink*, Execution&);

}  // namespace twinops
