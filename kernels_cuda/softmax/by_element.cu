// softmax and its siblings by the type of what they read: their kernels are compiled once for each.
// A bias and a mask become one mask before.
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/broadcast_sums.hpp"
#include "kernels_cuda/softmax/combined_mask.hpp"
#include "operators/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {
namespace {

template <class Op>
void run_by_element(const typename Op::Arguments& a, Execution& execution) {
  with_floating_type(a.types.in, [&]<class In>(TypeTag<In>) { run_cuda_of<Op, In>(a, execution); });
}

template <class Op>
void run_softmax(const SoftmaxArguments& all, Execution& execution) {
  with_combined_mask(all, execution, combine_on_cuda,
                     [&](const SoftmaxArguments& a) { run_by_element<Op>(a, execution); });
}
// A gradient, and what sums it is asked for.
template <class Op>
void run_gradient(const SoftmaxGradArguments& all, Execution& execution) {
  const Workspace scratch(execution, scratch_of_sums(all));
  with_combined_mask(all, execution, combine_on_cuda, [&](const SoftmaxGradArguments& a) {
    run_with_sums(
        a, execution,
        [&](const SoftmaxGradArguments& part) { run_by_element<Op>(part, execution); },
        [&](const BroadcastSums& sums, const void* values, BroadcastSums::Place place) {
          broadcast_sums_on_cuda(sums, values, place, scratch.data(), execution);
        });
  });
}

}  // namespace

template <>
void run_cuda<Softmax>(const SoftmaxArguments& a, Execution& execution) {
  run_softmax<Softmax>(a, execution);
}
template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& a, Execution& execution) {
  run_softmax<LogSoftmax>(a, execution);
}
template <>
void run_cuda<SoftmaxGrad>(const SoftmaxGradArguments& a, Execution& execution) {
  run_gradient<SoftmaxGrad>(a, execution);
}
template <>
void run_cuda<LogSoftmaxGrad>(const SoftmaxGradArguments& a, Execution& execution) {
  run_gradient<LogSoftmaxGrad>(a, execution);
}

}  // namespace twinops
