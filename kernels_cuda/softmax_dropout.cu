// softmax_dropout: softmax's kernel, then dropout's over what it wrote. Two launches;
// probabilities, or y where they are not kept, are read once more than one launch would.
#include "kernels_cuda/kernel.hpp"
#include "operators/dropout.hpp"
#include "operators/softmax_dropout.hpp"

namespace twinops {

template <>
void run_cuda<SoftmaxDropout>(const SoftmaxDropoutArguments& a, Execution& execution) {
  run_cuda<Softmax>(a.softmax, execution);
  run_cuda<Dropout>(a.dropout, execution);
}

}  // namespace twinops
