// The threads of a call on the CPU: those of the OpenMP runtime that Paddle's own kernels run on.
#pragma once

#include "twinops/twinops.h"

namespace twinops::paddle_host {

// Fills in `threads` and `parallel_for`. Where Paddle's runtime cannot be found, twinops keeps its
// own.
void lend_threads(twinops_execution& execution);

}  // namespace twinops::paddle_host
