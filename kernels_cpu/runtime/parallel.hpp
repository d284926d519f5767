// Threads for CPU kernels. No other file here starts any.
#pragma once

#include "numerics/qualifiers.hpp"
#include "operators/execution.hpp"

namespace twinops {

// Divides [0, n) into at most as many ranges as there are threads, and calls body(context, begin,
// end) for each in the contract's floating-point environment. Ranges have at least `grain` elements
// on average, unless there is one alone, and begin at multiples of `align`. The call is serial for
// one range, inside another parallel region, and in a child of fork(), which has none of OpenMP's
// threads. What a kernel computes must not depend on where the ranges begin.
using RangeBody = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_ranges(const Execution& execution, std::int64_t n, std::int64_t grain,
                     std::int64_t align, RangeBody body, void* context);

template <class F>
TWINOPS_INLINE void parallel_ranges(const Execution& execution, std::int64_t n, std::int64_t grain,
                                    std::int64_t align, F&& f) {
  parallel_ranges(
      execution, n, grain, align,
      [](void* context, std::int64_t begin, std::int64_t end) {
        (*static_cast<std::remove_reference_t<F>*>(context))(begin, end);
      },
      &f);
}

// How many threads a call with this Execution may use: as many as it asks for, but no more of
// OpenMP's than are of use.
int thread_count(const Execution& execution);

}  // namespace twinops
