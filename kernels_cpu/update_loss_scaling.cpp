// Memory: where a value was not finite each element is written once; else each is read and written
// once, or, in place, not touched.
#include "operators/update_loss_scaling.hpp"

#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/loss_scale.hpp"
#include "kernels_cpu/stretches.hpp"

namespace twinops {

template <>
void run_cpu<UpdateLossScaling, isa::TWINOPS_ISA>(const UpdateLossScaling::Arguments& arguments,
                                                  Execution& execution) {
  const bool found = update_loss_scale(arguments);
  for_each_stretch(arguments.list, execution, [&](const Stretches& stretches) {
    for (std::size_t i = 0; i < stretches.count; ++i) {
      const Stretch& s = stretches.first[i];
      const std::size_t bytes = static_cast<std::size_t>(s.elements) * size_of(stretches.type);
      if (found)
        __builtin_memset(s.out, 0, bytes);
      else if (s.x != s.out)
        __builtin_memcpy(s.out, s.x, bytes);
    }
    return false;
  });
}

}  // namespace twinops
