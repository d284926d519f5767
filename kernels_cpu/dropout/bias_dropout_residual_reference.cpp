#include "kernels_cpu/dropout/dropout_reference.hpp"
#include "kernels_cpu/kernel.hpp"
#include "operators/bias_dropout_residual.hpp"

namespace twinops {

template <>
void run_reference<BiasDropoutResidual>(const DropoutWork& work, Execution& execution) {
  reference_dropout(work, execution);
}

}  // namespace twinops
