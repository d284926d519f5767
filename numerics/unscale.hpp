// The arithmetic of check_finite_and_unscale: docs/operators/check_finite_and_unscale.md.
#pragma once

#include "numerics/float16.hpp"

namespace twinops {

// What every element of type T is multiplied with: 1 / scale, divided in double, rounded once more
// to float unless the list is of doubles.
template <class T>
TWINOPS_INLINE constexpr compute_t<T> inverse_scale(double scale) {
  return static_cast<compute_t<T>>(1.0 / scale);
}

// The same of a float, which a division of floats gives as well: a double has more than twice a
// float's bits, so that the first rounding cannot mislead the second (loss_scaling_test.cpp, over
// every float). On a GPU it is a tenth of the instructions.
template <class T>
TWINOPS_INLINE constexpr compute_t<T> inverse_scale(float scale) {
  return static_cast<compute_t<T>>(compute_t<T>(1) / scale);
}

// The unscaled value before it is stored. V: float, double or a vector of them.
template <class V>
TWINOPS_INLINE constexpr V unscale(V x, V inverse) {
  return x * inverse;
}

// Whether y is stored as neither an infinity nor a NaN in type T; with T of y's own type, whether
// it is neither.
template <class T, class V>
TWINOPS_INLINE constexpr auto is_finite(V y) {
  return abs(y) < V(kOverflow<T>);
}

// Four at one look: they are finite in T if this says so, for no sum of sizes is rounded to less
// than one of them. Where their sum alone is not, it says no.
template <class T, class V>
TWINOPS_INLINE constexpr auto are_surely_finite(V a, V b, V c, V d) {
  return (abs(a) + abs(b)) + (abs(c) + abs(d)) < V(kOverflow<T>);
}

}  // namespace twinops
