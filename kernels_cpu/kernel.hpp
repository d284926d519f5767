// The signature of every CPU kernel. Op is one of operators/ and names the arguments. The caller's
// thread is already in the contract's floating-point environment.
#pragma once

#include "operators/execution.hpp"

namespace twinops {

// By vectors of instruction set Isa. Specialized in kernels_cpu/<family>/<operator>.cpp, once for
// each instruction set.
template <class Op, class Isa>
void run_cpu(const typename Op::Arguments& arguments, Execution& execution);

// The same for a call that reads elements of type In, where an operator's file is compiled once for
// each type (TWINOPS_ELEMENT).
template <class Op, class Isa, class In>
void run_cpu_of(const typename Op::Arguments& arguments, Execution& execution);

// One element after the other, on one thread, simple enough to see that it is right. All other
// kernels must give the same bits. Specialized in kernels_cpu/<family>/<operator>_reference.cpp.
template <class Op>
void run_reference(const typename Op::Arguments& arguments, Execution& execution);

}  // namespace twinops
