#include "kernels_cuda/softmax/combined_mask.hpp"
#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  const auto run = [&](const SoftmaxArguments& all) {
    split_axes<kKernelAxes>(all, [&](const SoftmaxArguments& part) {
      if (!run_softmax_strided(true, part, execution)) run_softmax<true>(part, execution);
    });
  };
  with_combined_mask(arguments, execution, combine_on_cuda, run);
}

}  // namespace twinops
