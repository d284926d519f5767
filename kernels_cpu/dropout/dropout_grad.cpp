// dropout_grad: kernels_cpu/dropout/dropout_kernel.hpp.
#include "operators/dropout_grad.hpp"

#include "kernels_cpu/dropout/dropout_kernel.hpp"

namespace twinops {

template <>
void run_cpu<DropoutGrad, isa::TWINOPS_ISA>(const DropoutWork& work, Execution& execution) {
  dropout_on_cpu<isa::TWINOPS_ISA>(work, execution);
}

}  // namespace twinops
