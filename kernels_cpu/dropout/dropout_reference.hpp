// The scalar reference of the dropout family: one element after the other.
#pragma once

#include "operators/dropout_work.hpp"
#include "operators/execution.hpp"

namespace twinops {

void reference_dropout(const DropoutWork& work, Execution& execution);

// The mask alone: whether element i is kept; and stores the whole mask where the call stores one.
bool reference_is_kept(const DropoutWork& work, const Sequence& sequence, std::int64_t i);
void reference_mask(const DropoutWork& work, const Sequence& sequence);

}  // namespace twinops
