// bias_dropout_residual: dropout's kernel (kernels_cpu/dropout/dropout_kernel.hpp), which takes its
// work as well.
#include "operators/bias_dropout_residual.hpp"

#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "operators/dropout.hpp"

namespace twinops {

template <>
void run_cpu<BiasDropoutResidual, isa::TWINOPS_ISA>(const DropoutWork& work, Execution& execution) {
  run_cpu<Dropout, isa::TWINOPS_ISA>(work, execution);
}

}  // namespace twinops
