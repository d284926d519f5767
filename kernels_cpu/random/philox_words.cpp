// philox_words: kernels_cpu/random/random_fill_kernel.hpp.
#include "operators/philox_words.hpp"

#include "kernels_cpu/random/random_fill_kernel.hpp"

namespace twinops {

template <>
void run_cpu<PhiloxWords, isa::TWINOPS_ISA>(const RandomFill& fill, Execution& execution) {
  fill_on_cpu<isa::TWINOPS_ISA>(fill, execution, [](std::uint32_t word) { return word; });
}

}  // namespace twinops
