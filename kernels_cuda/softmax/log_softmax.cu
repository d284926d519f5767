#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  for_few_axes<kFewAxes>(arguments, [&](const SoftmaxArguments& part) {
    if (!run_softmax_across(true, part, execution)) run_softmax<true>(part, execution);
  });
}

}  // namespace twinops
