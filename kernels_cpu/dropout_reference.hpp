// The family's scalar reference: one element after the other.
#pragma once

#include "operators/dropout_work.hpp"
#include "operators/execution.hpp"

namespace twinops {

void reference_dropout(const DropoutWork& work, Execution& execution);

}  // namespace twinops
