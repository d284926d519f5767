// softmax_grad and log_softmax_grad, one element after the other.
#include "kernels_cpu/softmax/softmax_grad_reference.hpp"

#include "kernels_cpu/kernel.hpp"

namespace twinops {
namespace {

constexpr auto kAsItIs = [](std::int64_t, std::int64_t, auto dy) { return dy; };

}  // namespace

template <>
void run_reference<SoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  grad_reference<false>(arguments, execution, kAsItIs);
}
template <>
void run_reference<LogSoftmaxGrad>(const SoftmaxGradArguments& arguments, Execution& execution) {
  grad_reference<true>(arguments, execution, kAsItIs);
}

}  // namespace twinops
