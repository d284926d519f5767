// The softmax family by the type of what is read: its kernels are compiled once for each. A bias
// and a mask become one mask before.
#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/broadcast_sums.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
#include "operators/softmax_dropout.hpp"
#include "operators/softmax_dropout_grad.hpp"

namespace twinops {
namespace {

template <class Op>
void run_by_element(TypePair types, const typename Op::Arguments& a, Execution& execution) {
  with_floating_type(
      types.in, [&]<class In>(TypeTag<In>) { run_cpu_of<Op, isa::TWINOPS_ISA, In>(a, execution); });
}

// of(part): the operator's arguments with `part` of the softmax.
template <class Op, class Arguments, class Of>
void run_softmax(const Arguments& all, Execution& execution, Of&& of) {
  with_combined_mask(all, execution, combine_on_cpu, [&](const Arguments& part) {
    run_by_element<Op>(part.types, of(part), execution);
  });
}
// The same for a gradient, and what sums it is asked for.
template <class Op, class Of>
void run_gradient(const SoftmaxGradArguments& all, Execution& execution, Of&& of) {
  with_combined_mask(all, execution, combine_on_cpu, [&](const SoftmaxGradArguments& a) {
    run_with_sums(
        a, execution,
        [&](const SoftmaxGradArguments& part) {
          run_by_element<Op>(part.types, of(part), execution);
        },
        [&](const BroadcastSums& sums, const void* values, BroadcastSums::Place place) {
          broadcast_sums_on_cpu(sums, values, place, execution);
        });
  });
}

constexpr auto kItself = []<class Arguments>(const Arguments& part) -> const Arguments& {
  return part;
};
// Arguments of softmax under dropout, with another softmax.
template <class Arguments>
auto with_softmax(const Arguments& a) {
  return [&a](const decltype(a.softmax)& softmax) {
    Arguments with = a;
    with.softmax = softmax;
    return with;
  };
}

}  // namespace

template <>
void run_cpu<Softmax, isa::TWINOPS_ISA>(const SoftmaxArguments& a, Execution& execution) {
  run_softmax<Softmax>(a, execution, kItself);
}
template <>
void run_cpu<LogSoftmax, isa::TWINOPS_ISA>(const SoftmaxArguments& a, Execution& execution) {
  run_softmax<LogSoftmax>(a, execution, kItself);
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
  run_softmax<SoftmaxDropout>(a.softmax, execution, with_softmax(a));
}
template <>
void run_cpu<SoftmaxDropoutGrad, isa::TWINOPS_ISA>(const SoftmaxDropoutGradArguments& a,
                                                   Execution& execution) {
  run_gradient<SoftmaxDropoutGrad>(a.softmax, execution, with_softmax(a));
}

}  // namespace twinops
