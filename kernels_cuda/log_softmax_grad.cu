#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_grad_launch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  for_few_axes<kFewAxes>(arguments, [&](const SoftmaxGradArguments& part) {
    if (!run_softmax_grad_across(true, part, execution)) run_softmax_grad<true>(part, execution);
  });
}

}  // namespace twinops
