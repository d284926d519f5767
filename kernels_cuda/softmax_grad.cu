#include "kernels_cuda/softmax_grad_launch.cuh"

namespace twinops {

template <>
void run_cuda<SoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  run_softmax_grad<false>(arguments, execution);
}

}  // namespace twinops
