// Sums over the axes that a tensor was broadcast over (operators/mask_gradient.hpp): what all
// instruction sets share, because it waits for memory.
#pragma once

#include "operators/execution.hpp"
#include "operators/mask_gradient.hpp"

namespace twinops {

// values: of the compute type of sums.type, where `place` says.
void broadcast_sums_on_cpu(const BroadcastSums& sums, const void* values,
                           BroadcastSums::Place place, Execution& execution);

}  // namespace twinops
