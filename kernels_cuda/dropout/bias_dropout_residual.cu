// bias_dropout_residual: kernels_cuda/dropout/dispatch.cuh.
#include "kernels_cuda/dropout/dispatch.cuh"
#include "operators/bias_dropout_residual.hpp"

namespace twinops {

template <>
void run_cuda<BiasDropoutResidual>(const DropoutWork& work, Execution& execution) {
  dropout_on_cuda<true, true>(work, execution);
}

}  // namespace twinops
