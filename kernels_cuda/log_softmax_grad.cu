#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_grad_launch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  if (run_softmax_grad_across(true, arguments, execution)) return;
  run_softmax_grad<true>(arguments, execution);
}

}  // namespace twinops
