// The greater and the lesser of two 16-bit numbers, as CUDA orders them: -0 lies below +0.
#pragma once

#include <cstdint>

namespace twinops::emulator {

// H: has `bits`; widened(h): its float. Of a NaN the greater is NaN, the lesser is the other.
template <class H, class Widened>
H greater_or_nan(H a, H b, Widened&& widened) {
  const float x = widened(a), y = widened(b);
  if (x != x || y != y) return {0x7fff};
  if (x == y) return (a.bits & 0x8000) != 0 ? b : a;
  return x < y ? b : a;
}
template <class H, class Widened>
H lesser(H a, H b, Widened&& widened) {
  const float x = widened(a), y = widened(b);
  if (x != x && y != y) return {0x7fff};
  if (x != x) return b;
  if (y != y) return a;
  if (x == y) return (a.bits & 0x8000) != 0 ? a : b;
  return x < y ? a : b;
}

// Of two numbers in a word, each.
template <class H2, class Join>
H2 each_of_two(H2 a, H2 b, Join&& join) {
  return {join(a.low, b.low), join(a.high, b.high)};
}

}  // namespace twinops::emulator
