#include "kernels_cuda/softmax/grad_dispatch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  run_any_softmax_grad<true>(arguments, execution);
}

}  // namespace twinops
