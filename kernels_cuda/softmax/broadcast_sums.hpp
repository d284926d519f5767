// Sums over the axes that a tensor was broadcast over (operators/mask_gradient.hpp).
#pragma once

#include "operators/execution.hpp"
#include "operators/mask_gradient.hpp"

namespace twinops {

// Bytes of scratch memory that the sums need.
std::size_t scratch_of_broadcast_sums(const BroadcastSums& sums);

// values: of the compute type of sums.type, where `place` says.
void broadcast_sums_on_cuda(const BroadcastSums& sums, const void* values,
                            BroadcastSums::Place place, void* scratch, Execution& execution);

}  // namespace twinops
