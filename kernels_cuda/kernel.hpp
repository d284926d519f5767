// The signature of every CUDA kernel, with no header of CUDA's.
#pragma once

#include "operators/execution.hpp"

namespace twinops {

// Launches on execution.stream of execution.device, and returns: no synchronization, no copy, no
// allocation, the current device as it was. Throws Error(device_error) if a launch is refused.
// Specialized in kernels_cuda/<family>/.
template <class Op>
void run_cuda(const typename Op::Arguments& arguments, Execution& execution);

// The same for a call that reads elements of type In, where an operator's file is compiled once for
// each type (TWINOPS_ELEMENT).
template <class Op, class In>
void run_cuda_of(const typename Op::Arguments& arguments, Execution& execution);

}  // namespace twinops
