// Threads for CPU kernels. No other file here starts any.
#pragma once

#include <type_traits>

#include "numerics/qualifiers.hpp"
#include "operators/execution.hpp"

namespace twinops {

// Divides [0, n) into at most as many ranges as there are threads, and calls body(context, begin,
// end, buffer) for each in the contract's floating-point environment. Ranges have at least `grain`
// elements on average, unless there is one alone, and begin at multiples of `align`. The call is
// serial for one range, inside a parallel region of OpenMP's, and where no other thread can be had.
// What a kernel computes must not depend on where the ranges begin.
//
// buffer: `bytes` bytes of the range's own, aligned to 64; nullptr for none. It is for what is too
// large for a stack: threads that call, and that a host lends, have 64 KiB. Throws
// Error(out_of_memory), before any range runs, where it cannot be had, and what a body throws.
using RangeBody = void (*)(void* context, std::int64_t begin, std::int64_t end, void* buffer);
void parallel_ranges(const Execution& execution, std::int64_t n, std::int64_t grain,
                     std::int64_t align, std::size_t bytes, RangeBody body, void* context);

template <class F>
TWINOPS_INLINE void parallel_ranges(const Execution& execution, std::int64_t n, std::int64_t grain,
                                    std::int64_t align, F&& f) {
  parallel_ranges(
      execution, n, grain, align, 0,
      [](void* context, std::int64_t begin, std::int64_t end, void*) {
        (*static_cast<std::remove_reference_t<F>*>(context))(begin, end);
      },
      &f);
}

// f(begin, end, buffer), with buffer for `count` of T.
template <class T, class F>
TWINOPS_INLINE void parallel_ranges_with(const Execution& execution, std::int64_t n,
                                         std::int64_t grain, std::int64_t align, std::int64_t count,
                                         const F& f) {
  parallel_ranges(
      execution, n, grain, align, static_cast<std::size_t>(count) * sizeof(T),
      [](void* context, std::int64_t begin, std::int64_t end, void* buffer) {
        (*static_cast<F*>(context))(begin, end, static_cast<T*>(buffer));
      },
      const_cast<F*>(&f));
}

// How many threads a call with this Execution may use: as many as it asks for, but no more of the
// library's own than are of use.
int thread_count(const Execution& execution);

}  // namespace twinops
