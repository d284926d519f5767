// The softmax family by the type of what is read: its kernels are compiled once for each.
#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "operators/softmax_dropout.hpp"
#include "operators/softmax_dropout_grad.hpp"

namespace twinops {
namespace {

template <class Op>
void run_by_element(TypePair types, const typename Op::Arguments& a, Execution& execution) {
  with_floating_type(
      types.in, [&]<class In>(TypeTag<In>) { run_cpu_of<Op, isa::TWINOPS_ISA, In>(a, execution); });
}

}  // namespace

template <>
void run_cpu<Softmax, isa::TWINOPS_ISA>(const SoftmaxArguments& a, Execution& execution) {
  run_by_element<Softmax>(a.types, a, execution);
}
template <>
void run_cpu<LogSoftmax, isa::TWINOPS_ISA>(const SoftmaxArguments& a, Execution& execution) {
  run_by_element<LogSoftmax>(a.types, a, execution);
}
template <>
void run_cpu<SoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& a, Execution& execution) {
  run_by_element<SoftmaxGrad>(a.types, a, execution);
}
template <>
void run_cpu<LogSoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& a,
                                               Execution& execution) {
  run_by_element<LogSoftmaxGrad>(a.types, a, execution);
}
template <>
void run_cpu<SoftmaxDropout, isa::TWINOPS_ISA>(const SoftmaxDropoutArguments& a,
                                               Execution& execution) {
  run_by_element<SoftmaxDropout>(a.softmax.types, a, execution);
}
template <>
void run_cpu<SoftmaxDropoutGrad, isa::TWINOPS_ISA>(const SoftmaxDropoutGradArguments& a,
                                                   Execution& execution) {
  run_by_element<SoftmaxDropoutGrad>(a.softmax.types, a, execution);
}

}  // namespace twinops
