// The state of update_loss_scaling on the host: the part that does not depend on the instruction
// set.
#pragma once

#include "operators/update_loss_scaling.hpp"

namespace twinops {

// Reads found_inf, writes the next state, returns whether the tensors are to be zeroed.
bool update_loss_scale(const UpdateLossScaling::Arguments& arguments);

}  // namespace twinops
