#include "kernels_cpu/dropout/dropout_reference.hpp"
#include "kernels_cpu/kernel.hpp"
#include "operators/dropout_grad.hpp"

namespace twinops {

template <>
void run_reference<DropoutGrad>(const DropoutWork& work, Execution& execution) {
  reference_dropout(work, execution);
}

}  // namespace twinops
