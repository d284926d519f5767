// uniform: kernels_cuda/random/random_fill.cuh.
#include "kernels_cuda/random/random_fill.cuh"
#include "operators/uniform.hpp"

namespace twinops {

template <>
void run_cuda<Uniform>(const RandomFill& fill, Execution& execution) {
  fill_on_cuda<true>(fill, execution);
}

}  // namespace twinops
