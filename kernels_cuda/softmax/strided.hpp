// The softmax family over rows that lie across memory, as along axis 1 of [N, C, H, W]: launches of
// their own, in files of their own.
#pragma once

#include "operators/execution.hpp"
#include "operators/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// Launches, and returns true, where the call is one for these kernels; else does nothing: masks and
// scales, mixed types, rows whose elements lie side by side. Rows lie along up to kKernelAxes axes.
bool run_softmax_strided(bool log, const SoftmaxArguments& arguments, Execution& execution);
bool run_softmax_grad_strided(bool log, const SoftmaxGradArguments& arguments,
                              Execution& execution);

}  // namespace twinops
