// One pattern for every NaN that is stored, whichever processor made it.
#pragma once

#include "numerics/scalar.hpp"

namespace twinops {

inline constexpr std::uint32_t kNanBits32 = 0x7fffffffu;
inline constexpr std::uint64_t kNanBits64 = 0x7fffffffffffffffu;
inline constexpr std::uint16_t kNanBits16 = 0x7fffu;  // float16 and bfloat16

// y, with the one NaN in place of any other. V: float, double, or a vector of them.
template <class V>
TWINOPS_INLINE constexpr V canonical(V y) {
  using F = lane_t<V>;
  constexpr F nan =
      sizeof(F) == 4 ? F(bit_cast<float>(kNanBits32)) : F(bit_cast<double>(kNanBits64));
  return select(y == y, y, V(nan));
}

}  // namespace twinops
