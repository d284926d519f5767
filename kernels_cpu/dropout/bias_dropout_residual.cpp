// bias_dropout_residual: kernels_cpu/dropout/dropout_kernel.hpp.
#include "operators/bias_dropout_residual.hpp"

#include "kernels_cpu/dropout/dropout_kernel.hpp"

namespace twinops {

template <>
void run_cpu<BiasDropoutResidual, isa::TWINOPS_ISA>(const DropoutWork& work, Execution& execution) {
  dropout_on_cpu<isa::TWINOPS_ISA>(work, execution);
}

}  // namespace twinops
