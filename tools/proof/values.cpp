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

// How many elements one block of random words makes.
template <class Word>
inline constexpr std::int64_t kPerBlock = sizeof(Word) == 8 ? 1 : 2;

template <class Word>
Draw draw(const twinops::PhiloxBlock<std::uint32_t>& b, std::int64_t element) {
  if (sizeof(Word) == 8) return {b.w[0], std::uint64_t{b.w[1]} << 32 | b.w[2]};
  return {b.w[2 * element], b.w[2 * element + 1]};
}

// A number in [0, n) from the upper bits of a word.
std::uint64_t below(std::uint32_t word, std::uint64_t n) { return (word >> 4) * n >> 28; }

// A kind of finite values: exponents [lowest, lowest + exponents), the fraction's bits in
// `fraction`.
struct FiniteKind {
  std::uint64_t lowest, exponents, fraction;
};
struct FiniteKinds {
  FiniteKind kind[16];
};
constexpr FiniteKinds finite_kinds(const Format& f) {
  const auto bias = static_cast<std::uint64_t>(f.bias());
  const auto digits = static_cast<std::uint64_t>(f.fraction_bits);
  const FiniteKind ordinary{bias - 14, 19, f.fraction()}, any{0, f.all_ones(), f.fraction()};
  const FiniteKind subnormal{0, 1, f.fraction()}, zero{0, 1, 0};
  const FiniteKind overflows{f.all_ones() - 4, 4, f.fraction()};
  const FiniteKind becomes_subnormal{1, digits + 2, f.fraction()};  // once it is unscaled
  const FiniteKind few_bits{bias - 1, 2, f.fraction() & ~(f.fraction() >> 3)};
  return {{ordinary, ordinary, ordinary, ordinary, ordinary, ordinary, ordinary, ordinary, any, any,
           any, subnormal, overflows, few_bits, becomes_subnormal, zero}};
}

[[gnu::always_inline]] inline std::uint64_t finite_bits(const Format& f, const FiniteKind& kind,
                                                        Draw d) {
  return (d.bits & (f.sign() | kind.fraction)) |
         f.exponent(kind.lowest + below(d.kind, kind.exponents));
}

[[gnu::always_inline]] inline std::uint64_t not_finite_bits(const Format& f, Draw d) {
  const bool infinite = (d.kind >> 28) % 4 == 0;
  const std::uint64_t payload = d.bits & f.fraction();
  return (d.bits & f.sign()) | f.infinity() | (infinite ? 0 : std::max<std::uint64_t>(payload, 1));
}

enum class Kind { ordinary, all_finite, whole_range };

template <Kind K, DLDataType Type>
std::uint64_t value_bits(Draw d, std::int64_t index, std::int64_t n) {
  constexpr Format f = format_of(Type);
  static constexpr FiniteKinds kKinds = finite_kinds(f);
  if constexpr (K == Kind::whole_range) {
    const std::int64_t in_chunk = index % 1024;
    if (index == 0 || index == n - 1 || in_chunk == 1023 || (in_chunk == 0 && d.kind >> 31 != 0) ||
        (d.kind >> 16 & 63u) == 0)
      return not_finite_bits(f, d);
  }
  return finite_bits(f, kKinds.kind[K == Kind::ordinary ? 0 : d.kind & 15u], d);
}

template <Kind K, class Word, DLDataType Type>
void fill_floating(const Memory& m) {
  constexpr std::int64_t kStep = kPerBlock<Word>;
  auto* data = static_cast<Word*>(m.data);
  const std::int64_t n = m.elements;
  in_parallel((n + kStep - 1) / kStep, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      const auto words = twinops::philox_block(m.seed, 0, static_cast<std::uint64_t>(b));
      for (std::int64_t i = b * kStep; i < std::min(n, (b + 1) * kStep); ++i)
        data[i] = static_cast<Word>(value_bits<K, Type>(draw<Word>(words, i - b * kStep), i, n));
    }
  });
}

void fill_random(const Memory& m) {
  const std::size_t size = size_of(m.type);
  for (std::int64_t i = 0; i < m.elements; ++i) {
    const std::uint64_t bits =
        draw<std::uint64_t>(twinops::philox_block(m.seed, 0, static_cast<std::uint64_t>(i)), 0)
            .bits;
    store_bits(static_cast<char*>(m.data) + i * static_cast<std::int64_t>(size), size,
               m.type.code == twinops::kBool.code ? bits & 1 : bits);
  }
}

template <Kind K>
Fill values_of_kind() {
  return [](const Memory& m) {
    if (!is_floating(m.type)) return fill_random(m);
    if (m.type.code == kDLBfloat) return fill_floating<K, std::uint16_t, twinops::kBfloat16>(m);
    if (m.type.bits == 16) return fill_floating<K, std::uint16_t, twinops::kFloat16>(m);
    if (m.type.bits == 32) return fill_floating<K, std::uint32_t, twinops::kFloat32>(m);
    fill_floating<K, std::uint64_t, twinops::kFloat64>(m);
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
