// uniform: kernels_cpu/random/random_fill_kernel.hpp.
#include "operators/uniform.hpp"

#include "kernels_cpu/random/random_fill_kernel.hpp"

namespace twinops {

template <>
void run_cpu<Uniform, isa::TWINOPS_ISA>(const RandomFill& fill, Execution& execution) {
  const RandomLayout layout = fill.random.layout;
  fill_on_cpu<isa::TWINOPS_ISA>(
      fill, execution, [layout](std::uint32_t word) { return to_bits(uniform_of(layout, word)); });
}

}  // namespace twinops
