// The bits of elements of any type: read, written, compared, hashed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "twinops/twinops.hpp"

namespace proof {

inline std::uint64_t load_bits(const void* element, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, size);  // little endian, as all of ours are
  return bits;
}
inline void store_bits(void* element, std::size_t size, std::uint64_t bits) {
  std::memcpy(element, &bits, size);
}

bool is_floating(DLDataType type);
// Of a floating type:
bool is_finite(DLDataType type, std::uint64_t bits);
bool is_zero(DLDataType type, std::uint64_t bits);
bool is_nan(DLDataType type, std::uint64_t bits);
// The bits of a value rounded to `type`; of an integer type: its integer part.
std::uint64_t bits_from(DLDataType type, double value);

// "0x7fff", as wide as the element.
std::string hex(std::uint64_t bits, std::size_t size);
// How many values of the type lie between two finite or infinite ones, as text; "" if one is a NaN
// or the type is not floating.
std::string ulps_between(DLDataType type, std::uint64_t a, std::uint64_t b);

// FNV-1a, 64 bits.
class Fnv1a {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ p[i]) * 0x100000001b3u;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace proof
