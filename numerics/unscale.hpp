// The arithmetic of check_finite_and_unscale: docs/operators/check_finite_and_unscale.md.
#pragma once

#include "numerics/float16.hpp"

namespace twinops {

// The NaN that an operation makes of numbers. Zeros lie below, so that rounding to bfloat16 does
// not carry into its sign.
template <class F>
inline constexpr F kMadeNan = sizeof(F) == 4 ? F(bit_cast<float>(0x7fc00000u))
                                             : F(bit_cast<double>(0x7ff8000000000000u));

// inverse, but NaN if it is not what 1 / scale is in a normal number: if the scale is so great that
// digits of its inverse, or all of them, fell below the least number. Then every result is NaN, and
// the scale is lowered, where gradients would be lost in silence.
template <class F, class Scale>
TWINOPS_INLINE constexpr F inverse_or_nan(F inverse, Scale scale) {
  constexpr F kLeastNormal = sizeof(F) == 4 ? F(0x1p-126) : F(0x1p-1022);
  const bool lost = abs(inverse) < kLeastNormal && fma(Scale(inverse), scale, Scale(-1)) != 0;
  return lost ? kMadeNan<F> : inverse;
}

// What every element of type T is multiplied with: 1 / scale, divided in double, rounded once more
// to float unless the list is of doubles.
template <class T>
TWINOPS_INLINE compute_t<T> inverse_scale(double scale) {
  return inverse_or_nan(static_cast<compute_t<T>>(1.0 / scale), scale);
}

// The same of a float, which a division of floats gives as well: a double has more than twice a
// float's bits, so that the first rounding cannot mislead the second (loss_scaling_test.cpp, over
// every float). On a GPU it is a tenth of the instructions.
template <class T>
TWINOPS_INLINE compute_t<T> inverse_scale(float scale) {
  return inverse_or_nan(compute_t<T>(1) / scale, compute_t<T>(scale));
}

// With check = input, what was read stands for what is stored; not where the inverse is a NaN.
template <class F>
TWINOPS_INLINE constexpr bool is_found_at_once(bool check_input, F inverse) {
  return check_input && inverse != inverse;
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
