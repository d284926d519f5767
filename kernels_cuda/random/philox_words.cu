// philox_words: kernels_cuda/random/random_fill.cuh.
#include "kernels_cuda/random/random_fill.cuh"
#include "operators/philox_words.hpp"

namespace twinops {

template <>
void run_cuda<PhiloxWords>(const RandomFill& fill, Execution& execution) {
  fill_on_cuda<false>(fill, execution);
}

}  // namespace twinops
