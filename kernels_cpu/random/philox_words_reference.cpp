#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/random/random_fill_reference.hpp"
#include "operators/philox_words.hpp"

namespace twinops {

template <>
void run_reference<PhiloxWords>(const RandomFill& fill, Execution& execution) {
  for_each_word(fill, execution, [&](std::int64_t at, std::uint32_t word) {
    static_cast<std::uint32_t*>(fill.out)[at] = word;
  });
}

}  // namespace twinops
