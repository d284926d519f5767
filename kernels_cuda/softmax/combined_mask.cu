// One mask of a bias and a mask, element by element: each is read once, what is made is written
// once.
#include <algorithm>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/softmax/combined_mask.hpp"

namespace twinops {
namespace {

constexpr int kThreads = 256;

template <class F>
__global__ void __launch_bounds__(kThreads)
    combined_mask_kernel(const __grid_constant__ CombinedMask masks, F* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < masks.elements;
       i += step) {
    const auto at = row_starts(masks.axes, i);
    out[at.of[CombinedMask::kOut]] =
        masks.value<F>(at.of[CombinedMask::kBias], at.of[CombinedMask::kMask]);
  }
}

template <class F>
void launch(const CombinedMask& masks, void* out, Execution& execution) {
  const auto blocks = std::min<std::int64_t>((masks.elements + kThreads - 1) / kThreads, 1 << 20);
  launch_grid("launch of a bias and a mask", combined_mask_kernel<F>,
              dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, execution.stream, masks,
              static_cast<F*>(out));
  ++execution.launches;
}

}  // namespace

void combine_on_cuda(const CombinedMask& masks, void* out, Execution& execution) {
  if (masks.elements == 0) return;
  const CurrentDevice current(execution.device.index);
  if (masks.type == Type::float64)
    launch<double>(masks, out, execution);
  else
    launch<float>(masks, out, execution);
}

}  // namespace twinops
