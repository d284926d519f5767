// The signature of every CPU kernel. Op is one of operators/: it names the arguments and nothing
// else. The caller's thread is in the contract's floating-point environment already.
#pragma once

#include "operators/execution.hpp"

namespace twinops {

// Vectors of instruction set Isa: specialized in kernels_cpu/<operator>.cpp, once an instruction
// set.
template <class Op, class Isa>
void run_cpu(const typename Op::Arguments& arguments, Execution& execution);

// One element after the other, on one thread, for a reader to see that it is right. Everything else
// must equal it. Specialized in kernels_cpu/<operator>_reference.cpp.
template <class Op>
void run_reference(const typename Op::Arguments& arguments, Execution& execution);

}  // namespace twinops
