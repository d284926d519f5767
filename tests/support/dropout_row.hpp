// The fixture of the dropout family's tests: a row, and what it draws, read back to the host.
#pragma once

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/on_device.hpp"

namespace twinops::test {

using Words = std::vector<std::uint32_t>;
using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;
using Shape = std::vector<std::int64_t>;

class DropoutRow : public testing::TestWithParam<std::string> {
 protected:
  Execution on_row() const { return {.row = GetParam()}; }

  // The byte mask of a tensor of `shape`, and its y for x = 1, 2, 3, ...
  struct Drawn {
    Bytes mask;
    Floats y;
    std::uint64_t random_words;
  };
  Drawn draw(const Shape& shape, const DropoutOptions& options) const {
    const auto n = static_cast<std::size_t>(elements_of(shape));
    Floats x(n);
    std::iota(x.begin(), x.end(), 1.0f);
    Drawn drawn{Bytes(n, 0xca), Floats(n, -1), 0};
    const OnDevice x_at(GetParam(), x), y_at(GetParam(), drawn.y);
    const OnDevice m_at(GetParam(), drawn.mask);
    drawn.random_words =
        dropout(x_at.tensor(shape), y_at.tensor(shape), m_at.tensor(shape), options, on_row())
            .random_words;
    y_at.read(drawn.y);
    m_at.read(drawn.mask);
    return drawn;
  }
  Words words(const Shape& shape, const RandomOptions& options) const {
    Words drawn(static_cast<std::size_t>(elements_of(shape)), 0xcacacaca);
    const OnDevice at(GetParam(), drawn);
    philox_words(at.tensor(shape), options, on_row());
    at.read(drawn);
    return drawn;
  }
};

inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

}  // namespace twinops::test
