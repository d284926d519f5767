#include "kernels_cuda/softmax_launch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  run_softmax<true>(arguments, execution);
}

}  // namespace twinops
