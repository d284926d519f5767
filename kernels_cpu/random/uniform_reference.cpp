#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/random/random_fill_reference.hpp"
#include "operators/uniform.hpp"

namespace twinops {

template <>
void run_reference<Uniform>(const RandomFill& fill, Execution& execution) {
  for_each_word(fill, execution, [&](std::int64_t at, std::uint32_t word) {
    static_cast<float*>(fill.out)[at] = uniform_of(fill.random.layout, word);
  });
}

}  // namespace twinops
