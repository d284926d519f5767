#include "tools/proof/values.hpp"

#include <algorithm>
#include <thread>

#include "numerics/philox.hpp"
#include "tools/proof/bits.hpp"
#include "tools/proof/format.hpp"

namespace proof {
namespace {

// Calls f(first, last) for ranges that make up [0, n), by as many threads as there are processors.
template <class F>
void in_parallel(std::int64_t n, F&& f) {
  const std::int64_t most = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t parts = std::clamp<std::int64_t>(n >> 16, 1, most);
  std::vector<std::thread> threads;
  for (std::int64_t p = 1; p < parts; ++p)
    threads.emplace_back([&f, n, p, parts] { f(n * p / parts, n * (p + 1) / parts); });
  f(0, n / parts);
  for (std::thread& t : threads) t.join();
}

// What a value is made of: a word that says of what kind it is, and the bits to make it with.
struct Draw {
  std::uint32_t kind;
  std::uint64_t bits;
};

template <bool Wide>
Draw draw(std::uint64_t seed, std::uint64_t index) {
  if constexpr (Wide) {
    const auto b = twinops::philox_block(seed, 0, index);
    return {b.w[0], std::uint64_t{b.w[1]} << 32 | b.w[2]};
  } else {
    const auto b = twinops::philox_block(seed, 0, index / 2);
    const bool second = index % 2 != 0;
    return {second ? b.w[2] : b.w[0], second ? b.w[3] : b.w[1]};
  }
}

std::uint64_t ordinary_bits(const Format& f, Draw d) {
  const std::uint64_t exponent = static_cast<std::uint64_t>(f.bias()) - 14 + (d.kind >> 4) % 19;
  return (d.bits & (f.sign() | f.fraction())) | f.exponent(exponent);
}

std::uint64_t finite_bits(const Format& f, Draw d) {
  const std::uint64_t sign = d.bits & f.sign(), fraction = d.bits & f.fraction();
  const std::uint64_t choice = d.kind >> 4, largest = f.all_ones() - 1;
  switch (d.kind & 15u) {
    case 8:
    case 9:
    case 10:  // any
      return sign | fraction | f.exponent(choice % f.all_ones());
    case 11:  // subnormal
      return sign | fraction;
    case 12:  // overflows
      return sign | fraction | f.exponent(largest - choice % 4);
    case 13:  // near 1, with few bits set
      return sign | (fraction & (fraction << 3) & (fraction << 5)) |
             f.exponent(static_cast<std::uint64_t>(f.bias()) - choice % 2);
    case 14:  // the smallest normal ones: subnormal once they are unscaled
      return sign | fraction |
             f.exponent(1 + choice % (static_cast<std::uint64_t>(f.fraction_bits) + 2));
    case 15:
      return sign;
    default:
      return ordinary_bits(f, d);
  }
}

std::uint64_t not_finite_bits(const Format& f, Draw d) {
  const bool infinite = (d.kind >> 28) % 4 == 0;
  const std::uint64_t payload = d.bits & f.fraction();
  return (d.bits & f.sign()) | f.infinity() | (infinite ? 0 : std::max<std::uint64_t>(payload, 1));
}

enum class Kind { ordinary, all_finite, whole_range };

template <Kind K>
std::uint64_t value_bits(const Format& f, Draw d, std::int64_t index, std::int64_t n) {
  if constexpr (K == Kind::ordinary) return ordinary_bits(f, d);
  if constexpr (K == Kind::whole_range) {
    const std::int64_t in_chunk = index % 1024;
    if (index == 0 || index == n - 1 || in_chunk == 1023 || (in_chunk == 0 && d.kind >> 31 != 0) ||
        (d.kind >> 16 & 63u) == 0)
      return not_finite_bits(f, d);
  }
  return finite_bits(f, d);
}

template <Kind K, class Word>
void fill_floating(const Memory& m) {
  const Format f = format_of(m.type);
  auto* data = static_cast<Word*>(m.data);
  in_parallel(m.elements, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      data[i] = static_cast<Word>(value_bits<K>(
          f, draw<sizeof(Word) == 8>(m.seed, static_cast<std::uint64_t>(i)), i, m.elements));
  });
}

void fill_random(const Memory& m) {
  const std::size_t size = size_of(m.type);
  for (std::int64_t i = 0; i < m.elements; ++i) {
    const std::uint64_t bits = draw<true>(m.seed, static_cast<std::uint64_t>(i)).bits;
    store_bits(static_cast<char*>(m.data) + i * static_cast<std::int64_t>(size), size,
               m.type.code == twinops::kBool.code ? bits & 1 : bits);
  }
}

template <Kind K>
Fill values_of_kind() {
  return [](const Memory& m) {
    if (!is_floating(m.type)) return fill_random(m);
    if (m.type.bits == 16) return fill_floating<K, std::uint16_t>(m);
    if (m.type.bits == 32) return fill_floating<K, std::uint32_t>(m);
    fill_floating<K, std::uint64_t>(m);
  };
}

// bits_at(type, i) for every element.
template <class F>
Fill each(F bits_at) {
  return [bits_at](const Memory& m) {
    const std::size_t size = size_of(m.type);
    for (std::int64_t i = 0; i < m.elements; ++i)
      store_bits(static_cast<char*>(m.data) + i * static_cast<std::int64_t>(size), size,
                 bits_at(m.type, static_cast<std::size_t>(i)));
  };
}

}  // namespace

Fill constant(double value) { return numbers({value}); }
Fill numbers(std::vector<double> values) {
  return each([values = std::move(values)](DLDataType type, std::size_t i) {
    return bits_from(type, values[std::min(i, values.size() - 1)]);
  });
}
Fill integers(std::vector<std::int64_t> values) {
  return each([values = std::move(values)](DLDataType, std::size_t i) {
    return static_cast<std::uint64_t>(values[std::min(i, values.size() - 1)]);
  });
}
Fill random_bits() { return fill_random; }
Fill ordinary() { return values_of_kind<Kind::ordinary>(); }
Fill all_finite() { return values_of_kind<Kind::all_finite>(); }
Fill whole_range() { return values_of_kind<Kind::whole_range>(); }

Fill with(Fill fill, std::size_t member, std::int64_t index, Special value) {
  return [fill = std::move(fill), member, index, value](const Memory& m) {
    fill(m);
    const std::int64_t at = index < 0 ? m.elements + index : index;
    if (m.member != member || at < 0 || at >= m.elements) return;
    const std::size_t size = size_of(m.type);
    store_bits(static_cast<char*>(m.data) + at * static_cast<std::int64_t>(size), size,
               bits_of(value, m.type));
  };
}

std::uint64_t bits_of(Special value, DLDataType type) {
  const Format f = format_of(type);
  const std::uint64_t sign = f.sign(), infinity = f.infinity();
  switch (value) {
    case Special::infinity:
      return infinity;
    case Special::minus_infinity:
      return sign | infinity;
    case Special::quiet_nan:
      return infinity | (f.fraction() + 1) >> 1;
    case Special::signalling_nan:
      return infinity | 1;
    case Special::minus_nan:
      return sign | infinity | f.fraction();
    case Special::largest:
      return infinity - 1;
    case Special::minus_largest:
      return sign | (infinity - 1);
    case Special::least_normal:
      return f.exponent(1);
    case Special::least_subnormal:
      return 1;
    case Special::minus_zero:
      return sign;
  }
  return 0;
}

}  // namespace proof
