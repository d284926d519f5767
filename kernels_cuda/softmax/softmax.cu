#include "kernels_cuda/softmax/combined_mask.hpp"
#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/strided.hpp"

namespace twinops {

template <>
void run_cuda<Softmax>(const SoftmaxArguments& arguments, Execution& execution) {
  const auto run = [&](const SoftmaxArguments& all) {
    split_axes<kKernelAxes>(all, [&](const SoftmaxArguments& part) {
      if (!run_softmax_strided(false, part, execution)) run_softmax<false>(part, execution);
    });
  };
  with_combined_mask(arguments, execution, combine_on_cuda, run);
}

}  // namespace twinops
