// A bias and a mask beside it as one mask of numbers: docs/numerics.md, section 5.
#pragma once

#include "numerics/softmax.hpp"

namespace twinops {

// Beside a mask of bytes: whether it lets an element count.
template <class F>
TWINOPS_INLINE constexpr F combined_where(bool counts, F bias) {
  return counts ? bias : -kInfinity<F>;
}
// Beside a mask of numbers. What either masks out is masked out, whatever the other is.
template <class F>
TWINOPS_INLINE constexpr F combined(F bias, F mask) {
  return masks_out(bias) || masks_out(mask) ? -kInfinity<F> : bias + mask;
}

}  // namespace twinops
