// The softmax family by the type of what is read: its kernels are compiled once for each.
#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/broadcast_sums.hpp"
#include "operators/softmax_dropout.hpp"
#include "operators/softmax_dropout_grad.hpp"

namespace twinops {
namespace {

template <class Op>
void run_by_element(TypePair types, const typename Op::Arguments& a, Execution& execution) {
  with_floating_type(
      types.in, [&]<class In>(TypeTag<In>) { run_cpu_of<Op, isa::TWINOPS_ISA, In>(a, execution); });
}

// A gradient, and what sums it is asked for. of(part): the operator's arguments with `part` of the
// softmax.
template <class Op, class Of>
void run_gradient(const SoftmaxGradArguments& a, Execution& execution, Of&& of) {
  run_with_sums(
      a, execution,
      [&](const SoftmaxGradArguments& part) {
        run_by_element<Op>(part.types, of(part), execution);
      },
      [&](const void* values, BroadcastSums::Place place) {
        broadcast_sums_on_cpu(a.dmask, values, place, execution);
      });
}
constexpr auto kItself = [](const SoftmaxGradArguments& part) -> const SoftmaxGradArguments& {
  return part;
};

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
  run_gradient<SoftmaxGrad>(a, execution, kItself);
}
template <>
void run_cpu<LogSoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& a,
                                               Execution& execution) {
  run_gradient<LogSoftmaxGrad>(a, execution, kItself);
}
template <>
void run_cpu<SoftmaxDropout, isa::TWINOPS_ISA>(const SoftmaxDropoutArguments& a,
                                               Execution& execution) {
  run_by_element<SoftmaxDropout>(a.softmax.types, a, execution);
}
template <>
void run_cpu<SoftmaxDropoutGrad, isa::TWINOPS_ISA>(const SoftmaxDropoutGradArguments& a,
                                                   Execution& execution) {
  run_gradient<SoftmaxDropoutGrad>(a.softmax, execution, [&](const SoftmaxGradArguments& part) {
    SoftmaxDropoutGradArguments with = a;
    with.softmax = part;
    return with;
  });
}

}  // namespace twinops
