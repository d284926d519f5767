#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_grad_launch.cuh"

namespace twinops {

template <>
void run_cuda<SoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  if (run_softmax_grad_across(false, arguments, execution)) return;
  run_softmax_grad<false>(arguments, execution);
}

}  // namespace twinops
