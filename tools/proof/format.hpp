// Where sign, exponent and fraction of a floating type lie.
#pragma once

#include <cstdint>

#include "twinops/twinops.hpp"

namespace proof {

struct Format {
  int exponent_bits, fraction_bits;

  constexpr std::uint64_t sign() const {
    return std::uint64_t{1} << (exponent_bits + fraction_bits);
  }
  constexpr std::uint64_t fraction() const { return (std::uint64_t{1} << fraction_bits) - 1; }
  constexpr std::uint64_t infinity() const { return exponent(all_ones()); }
  constexpr std::uint64_t all_ones() const { return (std::uint64_t{1} << exponent_bits) - 1; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint64_t exponent(std::uint64_t e) const { return e << fraction_bits; }
};

constexpr Format format_of(DLDataType type) {
  if (type.code == kDLBfloat) return {8, 7};
  if (type.bits == 16) return {5, 10};
  if (type.bits == 32) return {8, 23};
  return {11, 52};
}

}  // namespace proof
