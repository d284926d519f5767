// The softmax family of strided rows, as along axis 1 of [N, C, H, W]. Their launches are compiled
// apart from the others.
#pragma once

#include "operators/execution.hpp"
#include "operators/softmax.hpp"

namespace twinops {

struct SoftmaxGradArguments;

// Launches and returns true, where these kernels take the call, which reads elements of type T;
// else does nothing and returns false. They take no masks and scales, no mixed types and no rows
// whose elements lie side by side. Rows lie along up to kKernelAxes axes.
template <class T>
bool run_softmax_strided(bool log, const SoftmaxArguments& arguments, Execution& execution);
template <class T>
bool run_softmax_grad_strided(bool log, const SoftmaxGradArguments& arguments,
                              Execution& execution);

}  // namespace twinops
