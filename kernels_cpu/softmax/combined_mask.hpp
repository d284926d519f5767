// One mask of a bias and a mask (operators/combined_mask.hpp), for every instruction set.
#pragma once

#include "operators/combined_mask.hpp"

namespace twinops {

void combine_on_cpu(const CombinedMask& combined, void* made, Execution& execution);

}  // namespace twinops
