#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_launch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  if (run_softmax_across(true, arguments, execution)) return;
  run_softmax<true>(arguments, execution);
}

}  // namespace twinops
