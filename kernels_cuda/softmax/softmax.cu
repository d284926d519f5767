#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<Softmax>(const SoftmaxArguments& arguments, Execution& execution) {
  split_axes<kKernelAxes>(arguments, [&](const SoftmaxArguments& part) {
    if (!run_softmax_strided(false, part, execution)) run_softmax<false>(part, execution);
  });
}

}  // namespace twinops
