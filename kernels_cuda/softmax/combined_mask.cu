// One mask of a bias and a mask, element by element: neighbouring threads make neighbouring
// elements, each of which is written once.
#include <algorithm>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/softmax/combined_mask.hpp"

namespace twinops {
namespace {

constexpr int kCombiningThreads = 256;  // of a block
constexpr std::int64_t kMostBlocks = 1 << 20;

template <class T>
__global__ void __launch_bounds__(kCombiningThreads)
    combined_mask_kernel(const __grid_constant__ CombinedMask combined, T* made) {
  const std::int64_t step = std::int64_t{gridDim.x} * kCombiningThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kCombiningThreads + threadIdx.x;
       i < combined.elements; i += step) {
    const auto at = row_starts(combined.axes, i);
    made[at.of[CombinedMask::kMade]] =
        combined.value<T>(at.of[CombinedMask::kBias], at.of[CombinedMask::kMask]);
  }
}

}  // namespace

void combine_on_cuda(const CombinedMask& combined, void* made, Execution& execution) {
  if (combined.elements == 0) return;
  const CurrentDevice current(execution.device.index);
  const auto blocks =
      std::min((combined.elements + kCombiningThreads - 1) / kCombiningThreads, kMostBlocks);
  with_type_of(combined, [&]<class T>(TypeTag<T>) {
    launch_grid("launch of a bias and a mask", combined_mask_kernel<T>,
                dim3(static_cast<unsigned>(blocks)), dim3(kCombiningThreads), 0, execution.stream,
                combined, static_cast<T*>(made));
  });
  ++execution.launches;
}

}  // namespace twinops
