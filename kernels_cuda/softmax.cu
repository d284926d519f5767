#include "kernels_cuda/softmax_launch.cuh"

namespace twinops {

template <>
void run_cuda<Softmax>(const SoftmaxArguments& arguments, Execution& execution) {
  run_softmax<false>(arguments, execution);
}

}  // namespace twinops
