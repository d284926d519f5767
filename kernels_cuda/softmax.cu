#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_launch.cuh"

namespace twinops {

template <>
void run_cuda<Softmax>(const SoftmaxArguments& arguments, Execution& execution) {
  if (run_softmax_across(false, arguments, execution)) return;
  run_softmax<false>(arguments, execution);
}

}  // namespace twinops
