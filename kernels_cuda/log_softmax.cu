#include "kernels_cuda/softmax_across.hpp"
#include "kernels_cuda/softmax_launch.cuh"

namespace twinops {

template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  for_few_axes<kFewAxes>(arguments, [&](const SoftmaxArguments& part) {
    if (!run_softmax_across(true, part, execution)) run_softmax<true>(part, execution);
  });
}

}  // namespace twinops
