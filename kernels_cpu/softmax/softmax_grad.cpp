// softmax_grad and log_softmax_grad of elements of one type: the steps that softmax_grad_op.cpp
// goes through rows with, as functions of this type of y and dy and each type of gradients; or
// softmax_grad_masked.hpp under a mask.
#include "operators/softmax_grad.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/grad_groups.hpp"

namespace twinops {
namespace {

using Isa = isa::TWINOPS_ISA;
using In = TWINOPS_ELEMENT;
using Compute = compute_t<In>;
using Steps = GradSteps<Isa, Compute>;

template <bool kLog, class Out>
constexpr Steps steps_of() {
  using Sums = GradSums<Isa, kLog, In>;
  using Results = Gradients<Isa, kLog, In, Out>;
  Steps steps{};
  steps.in_bytes = sizeof(In);
  steps.out_bytes = sizeof(Out);
  steps.log = kLog;
  steps.total = Sums::total;
  steps.write = Results::write;
  steps.group = Results::group;
  steps.add_up = Sums::add_up;
  steps.write_tile = Results::write_tile;
  return steps;
}
template <bool kLog, class Out>
constexpr Steps kSteps = steps_of<kLog, Out>();

}  // namespace

template <>
const GradSteps<Isa, Compute>& grad_steps<Isa, In>(TypePair types, bool log) {
  const Steps* steps = nullptr;
  with_out_type<In>(types, [&]<class Out>(TypeTag<Out>) {
    steps = log ? &kSteps<true, Out> : &kSteps<false, Out>;
  });
  return *steps;
}

template <>
void run_cpu_of<SoftmaxGrad, Isa, In>(const SoftmaxGradArguments& a, Execution& execution) {
  grad_rows(a, grad_steps<Isa, In>(a.types, false), nullptr, execution);
}
template <>
void run_cpu_of<LogSoftmaxGrad, Isa, In>(const SoftmaxGradArguments& a, Execution& execution) {
  grad_rows(a, grad_steps<Isa, In>(a.types, true), nullptr, execution);
}

}  // namespace twinops
