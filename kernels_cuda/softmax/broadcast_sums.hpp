// Sums over the axes that a tensor was broadcast over (operators/mask_gradient.hpp).
#pragma once

#include <algorithm>

#include "operators/softmax_grad.hpp"

namespace twinops {

// Bytes of scratch memory that the sums need.
std::size_t scratch_of_broadcast_sums(const BroadcastSums& sums);

// Of a gradient, whose sums are taken one after the other.
inline std::size_t scratch_of_sums(const SoftmaxGradArguments& a) {
  return std::max(scratch_of_broadcast_sums(a.dmask), scratch_of_broadcast_sums(a.dbias));
}

// values: of the compute type of sums.type, where `place` says.
void broadcast_sums_on_cuda(const BroadcastSums& sums, const void* values,
                            BroadcastSums::Place place, void* scratch, Execution& execution);

}  // namespace twinops
