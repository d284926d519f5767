#include "kernels_cuda/softmax/grad_dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<LogSoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  split_axes<kKernelAxes>(arguments, [&](const SoftmaxGradArguments& part) {
    if (!run_softmax_grad_strided(true, part, execution)) run_softmax_grad<true>(part, execution);
  });
}

}  // namespace twinops
