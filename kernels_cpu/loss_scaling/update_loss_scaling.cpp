// Memory: where a value was not finite, each element is written once. Otherwise each is read and
// written once, or, in place, not touched.
#include "operators/update_loss_scaling.hpp"

#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/loss_scaling/loss_scale.hpp"
#include "kernels_cpu/loss_scaling/multi_tensor_parts.hpp"

namespace twinops {

template <>
void run_cpu<UpdateLossScaling, isa::TWINOPS_ISA>(const UpdateLossScaling::Arguments& arguments,
                                                  Execution& execution) {
  const bool found = update_loss_scale(arguments);
  for_each_part(arguments.list, execution, [&](const TensorList::Part& part) {
    const auto size = static_cast<std::int64_t>(size_of(part.type));
    for (Runs<false> runs(part, size); !runs.done();) {
      const auto run = runs.take();
      const auto bytes = static_cast<std::size_t>(run.elements * size);
      if (found)
        __builtin_memset(run.out, 0, bytes);
      else if (run.x != run.out)
        __builtin_memcpy(run.out, run.x, bytes);
    }
    return false;
  });
}

}  // namespace twinops
