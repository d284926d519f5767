#include "kernels_cuda/softmax/grad_dispatch.cuh"

namespace twinops {

template <>
void run_cuda<SoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  run_any_softmax_grad<false>(arguments, execution);
}

}  // namespace twinops
