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

// Many in one check: a sum that each is added to says that all are finite in T; of some that are
// huge it may say no. An infinity or a NaN is left in any sum that it is in. Where T overflows
// sooner than what is computed in, sums are of squares, none of which is rounded to less than one
// of them.
template <class T, class V>
TWINOPS_INLINE constexpr V add_to_check(V sum, V y) {
  if constexpr (kOverflow<T> == kOverflow<compute_t<T>>)
    return sum + y;
  else
    return multiply_add(y, y, sum);
}
template <class T, class V>
TWINOPS_INLINE constexpr auto are_surely_finite(V sum) {
  using F = compute_t<T>;
  if constexpr (kOverflow<T> == kOverflow<F>) {
    return is_finite<T>(sum);
  } else {
    constexpr double kSquare = double{kOverflow<T>} * kOverflow<T>;
    constexpr F kLeast = kSquare < kOverflow<F> ? static_cast<F>(kSquare) : kOverflow<F>;
    return sum < V(kLeast);
  }
}

}  // namespace twinops
