#include "tools/proof/bits.hpp"

#include <cstdio>

#include "numerics/float16.hpp"
#include "tools/proof/format.hpp"

namespace proof {
namespace {

// Bits as an integer that grows with the value; both zeros are 0.
std::int64_t ordered(const Format& f, std::uint64_t bits) {
  const auto magnitude = static_cast<std::int64_t>(bits & (f.sign() - 1));
  return (bits & f.sign()) != 0 ? -magnitude : magnitude;
}

// An integer's bits, those of -1 for -1.5; 0 for a NaN and for what 64 bits do not hold.
std::uint64_t whole_bits(double value) {
  if (value >= 0x1p63 && value < 0x1p64) return static_cast<std::uint64_t>(value);
  if (value >= -0x1p63 && value < 0x1p63)
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  return 0;
}

}  // namespace

bool is_floating(DLDataType type) { return type.code == kDLFloat || type.code == kDLBfloat; }

bool is_finite(DLDataType type, std::uint64_t bits) {
  const Format f = format_of(type);
  return (bits & f.infinity()) != f.infinity();
}
bool is_zero(DLDataType type, std::uint64_t bits) {
  return (bits & (format_of(type).sign() - 1)) == 0;
}
bool is_nan(DLDataType type, std::uint64_t bits) {
  const Format f = format_of(type);
  return (bits & (f.sign() - 1)) > f.infinity();
}

std::uint64_t bits_from(DLDataType type, double value) {
  if (type.code == twinops::kBool.code) return value != 0;
  if (!is_floating(type)) {
    const std::uint64_t bits = whole_bits(value);
    return type.bits == 64 ? bits : bits & ((std::uint64_t{1} << type.bits) - 1);
  }
  if (type.bits == 64) return twinops::to_bits(value);
  const auto single = static_cast<float>(value);
  if (type.bits == 32) return twinops::to_bits(single);
  return type.code == kDLBfloat ? twinops::portable::narrow_bfloat16(single).bits
                                : twinops::portable::narrow_float16(single).bits;
}

std::string hex(std::uint64_t bits, std::size_t size) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%0*llx", static_cast<int>(2 * size),
                static_cast<unsigned long long>(bits));
  return text;
}

std::string ulps_between(DLDataType type, std::uint64_t a, std::uint64_t b) {
  if (!is_floating(type) || is_nan(type, a) || is_nan(type, b)) return {};
  const Format f = format_of(type);
  const std::int64_t x = ordered(f, a), y = ordered(f, b);
  const auto distance = x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                              : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
  return std::to_string(distance);
}

}  // namespace proof
