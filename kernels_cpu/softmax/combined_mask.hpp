// One mask of a bias and a mask (operators/softmax_mask.hpp): for all instruction sets and the
// reference.
#pragma once

#include "operators/softmax_mask.hpp"

namespace twinops {

void combine_on_cpu(const CombinedMask& masks, void* out, Execution& execution);

}  // namespace twinops
