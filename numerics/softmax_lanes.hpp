// The formulas of numerics/softmax.hpp for several rows at once, one a lane: the same bits, with
// what belongs to a row or a chunk as a vector. V: a vector of F, or F.
#pragma once

#include "numerics/softmax.hpp"

namespace twinops {

// What the weights of a lane's chunk are scaled by: WeightScale, with 2^(kLift - n) in the number
// that rounds (weight_magic).
template <class V>
struct LaneScale {
  V low, magic;
};
template <class V>
TWINOPS_INLINE constexpr LaneScale<V> lane_scale(V max) {
  using F = lane_t<V>;
  using Table = ExpTable<F>;
  const V n = fma(within_reach(max), V(Table::kLog2E), V(Table::kMagic)) - V(Table::kMagic);
  return {(n - V(F(Table::kBias + kLift<F>))) * V(Table::kLn2High),
          V(Table::kMagic + F(kLift<F>)) - n};
}
template <class In, class V>
TWINOPS_INLINE constexpr V weight(V x, LaneScale<V> scale) {
  using Table = ExpTable<lane_t<V>>;
  constexpr auto kOne = typename Table::Bits(Table::kBias) << Table::kShift;
  const ExpParts<V> e = power_parts<kNear<In>>(larger(x, scale.low), scale.magic);
  return e.mantissa * exponent_bits(e.exponent, kOne);
}

// The sum, NaN where the lane's row is not an ordinary one: its maximum is out of reach, or it
// holds a NaN.
template <class V>
TWINOPS_INLINE constexpr V sum_of_ordinary(V max, V sum) {
  using F = lane_t<V>;
  const V nan(bit_cast<F>(
      static_cast<typename ExpTable<F>::Bits>(sizeof(F) == 4 ? kNanBits32 : kNanBits64)));
  return select(V(kExpReach<F>) < abs(max), nan, sum);
}

// A chunk's part. A NaN or +infinity makes the sum NaN, and then the maximum is one too. A row
// whose maximum is too large is looked at again.
template <class F>
TWINOPS_INLINE constexpr SoftmaxPart<F> checked(F max, F sum) {
  const bool again = max > kExpReach<F> && max < kInfinity<F>;
  return {sum != sum && !again ? sum : max, sum};
}

}  // namespace twinops
