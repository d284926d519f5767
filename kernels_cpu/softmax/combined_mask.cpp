// Memory: a bias and a mask are read once where neither is broadcast; what is made is written once,
// as it lies.
#include "kernels_cpu/softmax/combined_mask.hpp"

#include <algorithm>

#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {

void combine_on_cpu(const CombinedMask& combined, void* made, Execution& execution) {
  // The last axis goes without divisions.
  const int last = combined.axes.rank - 1;
  const std::int64_t run = last < 0 ? 1 : combined.axes.size[last];
  const auto step = [&](int k) { return last < 0 ? 0 : combined.axes.stride[k][last]; };
  const std::int64_t bias_step = step(CombinedMask::kBias), mask_step = step(CombinedMask::kMask);
  with_type_of(combined, [&]<class T>(TypeTag<T>) {
    parallel_ranges(execution, combined.elements, 1 << 14, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      while (begin < end) {
                        const auto at = row_offsets(combined.axes, begin);
                        const std::int64_t n = std::min(end - begin, run - begin % run);
                        T* const to = static_cast<T*>(made) + at.of[CombinedMask::kMade];
                        for (std::int64_t i = 0; i < n; ++i)
                          to[i] = combined.value<T>(at.of[CombinedMask::kBias] + i * bias_step,
                                                    at.of[CombinedMask::kMask] + i * mask_step);
                        begin += n;
                      }
                    });
  });
}

}  // namespace twinops
