#include "kernels_cuda/softmax/grad_dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<SoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  split_axes<kKernelAxes>(arguments, [&](const SoftmaxGradArguments& part) {
    if (!run_softmax_grad_strided(false, part, execution)) run_softmax_grad<false>(part, execution);
  });
}

}  // namespace twinops
