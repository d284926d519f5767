#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda_of<Softmax, TWINOPS_ELEMENT>(const SoftmaxArguments& arguments,
                                           Execution& execution) {
  split_axes<kKernelAxes>(arguments, [&](const SoftmaxArguments& part) {
    if (!run_softmax_strided<TWINOPS_ELEMENT>(false, part, execution))
      run_softmax<false, TWINOPS_ELEMENT>(part, execution);
  });
}

}  // namespace twinops
