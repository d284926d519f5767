// One mask of a bias and a mask (operators/softmax_mask.hpp).
#pragma once

#include "operators/softmax_mask.hpp"

namespace twinops {

void combine_on_cuda(const CombinedMask& masks, void* out, Execution& execution);

}  // namespace twinops
