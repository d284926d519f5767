// Runs an operator of the table where PyTorch would: on its threads or its current stream, with
// scratch memory of its allocator.
#pragma once

#include "twinops/twinops.h"

namespace twinops::torch_host {

// Throws std::runtime_error with the library's message.
void execute(const char* op, const twinops_argument* arguments, size_t argument_count,
             const twinops_attribute* attributes, size_t attribute_count, DLDevice device);

}  // namespace twinops::torch_host
