// dropout_grad: kernels_cuda/dropout/dispatch.cuh.
#include "kernels_cuda/dropout/dispatch.cuh"
#include "operators/dropout_grad.hpp"

namespace twinops {

template <>
void run_cuda<DropoutGrad>(const DropoutWork& work, Execution& execution) {
  dropout_on_cuda<false, false>(work, execution);
}

}  // namespace twinops
