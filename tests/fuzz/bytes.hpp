// What a fuzzer gives, read as choices. Beyond the end everything is zero: a short input is a plain
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fuzz {

class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> data) : data_(data) {}

  bool empty() const { return at_ >= data_.size(); }
  std::uint8_t byte() { return empty() ? 0 : data_[at_++]; }
  std::uint16_t word() {
    const unsigned low = byte();
    return static_cast<std::uint16_t>(low | static_cast<unsigned>(byte()) << 8);
  }
  // 0 to n - 1.
  std::size_t below(std::size_t n) { return n <= 1 ? 0 : (n <= 256 ? byte() : word()) % n; }
  template <class T, std::size_t N>
  T of(const T (&choices)[N]) {
    return choices[below(N)];
  }

 private:
  std::span<const std::uint8_t> data_;
  std::size_t at_ = 0;
};

}  // namespace fuzz
