#include "kernels_cuda/softmax/grad_dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda_of<LogSoftmaxGrad, TWINOPS_ELEMENT>(const SoftmaxGradArguments& arguments,
                                                  Execution& execution) {
  split_axes<kKernelAxes>(arguments, [&](const SoftmaxGradArguments& part) {
    if (!run_softmax_grad_strided<TWINOPS_ELEMENT>(true, part, execution))
      run_softmax_grad<true, TWINOPS_ELEMENT>(part, execution);
  });
}

}  // namespace twinops
