#include "kernels_cuda/softmax_grad_launch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  run_softmax_grad<true>(arguments, execution);
}

}  // namespace twinops
