#include "kernels_cpu/softmax/combined_mask.hpp"

#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {

void combine_on_cpu(const CombinedMask& masks, void* out, Execution& execution) {
  with_floating_type(masks.type, [&]<class F>(TypeTag<F>) {
    if constexpr (std::is_same_v<F, compute_t<F>>) {
      auto range = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto at = row_offsets(masks.axes, i);
          static_cast<F*>(out)[at.of[CombinedMask::kOut]] =
              masks.value<F>(at.of[CombinedMask::kBias], at.of[CombinedMask::kMask]);
        }
      };
      parallel_ranges(execution, masks.elements, 1 << 14, 1, range);
    }
  });
}

}  // namespace twinops
