// dropout: kernels_cpu/dropout/dropout_kernel.hpp.
#include "operators/dropout.hpp"

#include "kernels_cpu/dropout/dropout_kernel.hpp"

namespace twinops {

template <>
void run_cpu<Dropout, isa::TWINOPS_ISA>(const DropoutWork& work, Execution& execution) {
  dropout_on_cpu<isa::TWINOPS_ISA>(work, execution);
}

}  // namespace twinops
