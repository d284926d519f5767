// The one place where CPU kernels meet threads.
#pragma once

#include "numerics/qualifiers.hpp"
#include "operators/execution.hpp"

namespace twinops {

// Cuts [0, n) into at most as many ranges as there are threads, of `grain` and more on average or
// one alone, each beginning at a multiple of `align`, and calls body(context, begin, end) for
// each, in the contract's floating-point environment. Serial for one range, inside another parallel
// region, and in a child made by fork() (OpenMP's threads did not come along). What a kernel
// computes must not depend on where the cuts are.
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

// How many threads a call with this Execution may use: what it asks for, but of OpenMP's no more
// than there can be a use for.
int thread_count(const Execution& execution);

}  // namespace twinops
