// Division of many numbers by the same divisor: a multiplication, whose upper word is shifted.
#pragma once

#include <cstdint>

namespace twinops {

// Divides numbers below 2^31 by a divisor from 2 to 2^31 - 1.
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(std::int64_t divisor) {
    while (std::int64_t{2} << shift_ < divisor) ++shift_;
    const auto d = static_cast<std::uint64_t>(divisor);
    inverse_ = static_cast<std::uint32_t>(((std::uint64_t{1} << (32 + shift_)) + d - 1) / d);
  }

  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t n) const {
    return __umulhi(n, inverse_) >> shift_;
  }

 private:
  std::uint32_t inverse_ = 0;
  int shift_ = 0;
};

}  // namespace twinops
