// dropout and dropout_grad: kernels_cpu/dropout_kernel.hpp.
#include "operators/dropout.hpp"

#include "kernels_cpu/dropout_kernel.hpp"

namespace twinops {
namespace {

// One body for both: what differs is in the arguments.
template <class Isa>
[[gnu::noinline]] void run_dropout(const DropoutWork& work, Execution& execution) {
  dropout_on_cpu<Isa>(work, execution);
}

}  // namespace

template <>
void run_cpu<Dropout, isa::TWINOPS_ISA>(const DropoutWork& work, Execution& execution) {
  run_dropout<isa::TWINOPS_ISA>(work, execution);
}

template <>
void run_cpu<DropoutGrad, isa::TWINOPS_ISA>(const DropoutWork& work, Execution& execution) {
  run_dropout<isa::TWINOPS_ISA>(work, execution);
}

}  // namespace twinops
