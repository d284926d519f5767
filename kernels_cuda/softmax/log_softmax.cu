#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  split_axes<kKernelAxes>(arguments, [&](const SoftmaxArguments& part) {
    if (!run_softmax_strided(true, part, execution)) run_softmax<true>(part, execution);
  });
}

}  // namespace twinops
