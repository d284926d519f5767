#include "tools/proof/softmax_values.hpp"

#include <cmath>
#include <limits>

#include "tools/proof/bits.hpp"
#include "tools/proof/values.hpp"

namespace proof {

namespace {

std::uint64_t mix(std::uint64_t seed, std::int64_t index) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(index + 1);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// The elements by a function of (random word, index).
template <class F>
Fill each(F value) {
  return [value](const Memory& m) {
    const std::size_t size = size_of(m.type);
    auto* to = static_cast<std::byte*>(m.data);
    for (std::int64_t i = 0; i < m.elements; ++i)
      store_bits(to + static_cast<std::size_t>(i) * size, size,
                 bits_from(m.type, value(mix(m.seed, i), i)));
  };
}
double unit(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

constexpr double kOut = -std::numeric_limits<double>::infinity();

}  // namespace

Fill logits() {
  return each([](std::uint64_t word, std::int64_t) {
    const double u = 2 * unit(word) - 1;
    return 12 * u * u * u;
  });
}
Fill steep() {
  const auto fall = [](double height, double step) {
    return each([=](std::uint64_t word, std::int64_t i) {
      if (word % 7 == 0) return kOut;
      return height * (unit(word) - 0.5) - static_cast<double>(i / 1024 % 5) * step;
    });
  };
  return [half = fall(16, 2), single = fall(200, 40), wide = fall(1600, 300)](const Memory& m) {
    (m.type.bits == 16 ? half : m.type.bits == 32 ? single : wide)(m);
  };
}
Fill cliffs(std::int64_t inner) {
  const auto fall = [inner](double step) {
    return each([=](std::uint64_t word, std::int64_t i) {
      return 4 * unit(word) - static_cast<double>(i / (1024 * inner) % 7) * step;
    });
  };
  return [single = fall(17), wide = fall(130)](const Memory& m) {
    (m.type.bits == 64 ? wide : single)(m);
  };
}
Fill far() {
  return each([](std::uint64_t word, std::int64_t) {
    return 4194304.0 + std::floor(64 * unit(word)) - (word % 5 == 0 ? 5e6 : 0);
  });
}
Fill all_masked() { return constant(kOut); }
Fill probabilities() {
  return each([](std::uint64_t word, std::int64_t) { return unit(word) * unit(word); });
}
Fill log_probabilities() {
  return each([](std::uint64_t word, std::int64_t) { return -30 * unit(word); });
}
Fill low_log_probabilities() {
  return each([](std::uint64_t word, std::int64_t i) {
    constexpr double kLeast[] = {-86.1, -87, -104};
    return kLeast[i / 1024 % 3] * unit(word);
  });
}
Fill some_bytes(int one_in) {
  return each([one_in](std::uint64_t word, std::int64_t) {
    return word % static_cast<std::uint64_t>(one_in) == 0
               ? static_cast<double>(1 + (word >> 32) % 255)
               : 0.0;
  });
}
Fill biases(int one_in) {
  return each([one_in](std::uint64_t word, std::int64_t) {
    if (word % static_cast<std::uint64_t>(one_in) == 0) return kOut;
    return 4 * unit(word) - 2;
  });
}
Fill every_nth(std::int64_t n, double there, double elsewhere, std::int64_t first) {
  return each([=](std::uint64_t word, std::int64_t i) {
    if (i % n == first) return there;
    return std::isnan(elsewhere) ? 8 * unit(word) - 4 : elsewhere;
  });
}

}  // namespace proof
