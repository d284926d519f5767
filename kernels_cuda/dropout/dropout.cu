// dropout: kernels_cuda/dropout/dispatch.cuh.
#include "kernels_cuda/dropout/dispatch.cuh"
#include "operators/dropout.hpp"

namespace twinops {

template <>
void run_cuda<Dropout>(const DropoutWork& work, Execution& execution) {
  dropout_on_cuda<true, false>(work, execution);
}

}  // namespace twinops
