// The tables in the C ABI's structs: made at the first question, kept for good. nullptr beyond the
// last.
#pragma once

#include <cstddef>

#include "twinops/twinops.h"

namespace twinops {

const twinops_operator_info* operator_info(std::size_t index);
const twinops_row* row_info(std::size_t index);
std::size_t device_count();
const twinops_device* device_info(std::size_t index);

}  // namespace twinops
