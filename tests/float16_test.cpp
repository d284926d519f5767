// float16 and bfloat16 on the host: every 16-bit value widened, every float narrowed, against rules
// that share no code with numerics/float16.hpp, against the processor's own instructions, and
// against the conversions of CUDA's headers where the toolkit is installed.
#include "numerics/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/every_float.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif
#if defined(TWINOPS_TEST_CUDA_HEADERS)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace twinops {
namespace {

using test::first_bad_float;
using test::first_bad_of_all;
using test::kNothing;

struct Float16Format {
  using Half = float16;
  static constexpr const char* name = "float16";
  static constexpr int exponent_bits = 5, fraction_bits = 10;
  static float16 narrow(float x) { return portable::narrow_float16(x); }
};
struct Bfloat16Format {
  using Half = bfloat16;
  static constexpr const char* name = "bfloat16";
  static constexpr int exponent_bits = 8, fraction_bits = 7;
  static bfloat16 narrow(float x) { return portable::narrow_bfloat16(x); }
};

// The value of 16 bits, from what IEEE 754 says of such a format.
template <class Format>
double value_of(std::uint16_t bits) {
  constexpr int kBias = (1 << (Format::exponent_bits - 1)) - 1;
  const int fraction = bits & ((1 << Format::fraction_bits) - 1);
  const int exponent = bits >> Format::fraction_bits & ((1 << Format::exponent_bits) - 1);
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const double significand = exponent == 0 ? fraction : fraction + (1 << Format::fraction_bits);
  return sign *
         std::ldexp(significand, (exponent == 0 ? 1 : exponent) - kBias - Format::fraction_bits);
}
template <class Format>
inline constexpr std::uint16_t kInfinity =
    static_cast<std::uint16_t>(((1 << Format::exponent_bits) - 1) << Format::fraction_bits);

template <class Format>
class Float16 : public testing::Test {};
using Formats = testing::Types<Float16Format, Bfloat16Format>;
struct FormatName {
  template <class Format>
  static std::string GetName(int) {
    return Format::name;
  }
};
TYPED_TEST_SUITE(Float16, Formats, FormatName);

TYPED_TEST(Float16, WidensEveryValueExactly) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float widened = widen(typename TypeParam::Half{half});
    const std::uint16_t magnitude = half & 0x7fff;
    if (magnitude > kInfinity<TypeParam>) {
      ASSERT_TRUE(std::isnan(widened)) << std::hex << bits;
    } else if (magnitude == kInfinity<TypeParam>) {
      ASSERT_TRUE(std::isinf(widened)) << std::hex << bits;
    } else {
      ASSERT_EQ(widened, value_of<TypeParam>(half)) << std::hex << bits;
    }
    ASSERT_EQ(std::signbit(widened), half >> 15 != 0) << std::hex << bits;
  }
}

// The float's bits of every boundary: limit[h] is the first float (as bits, positive) that is
// narrowed to more than h. The middle between two neighbours is exact in double, and a float lies
// below it, on it or above it; on it, the even one wins.
template <class Format>
std::vector<std::uint32_t> limits() {
  std::vector<std::uint32_t> limit(kInfinity<Format>);
  for (std::uint32_t h = 0; h < kInfinity<Format>; ++h) {
    const double middle = (value_of<Format>(static_cast<std::uint16_t>(h)) +
                           value_of<Format>(static_cast<std::uint16_t>(h + 1))) /
                          2;
    const auto below = static_cast<float>(middle);  // exact: halves have a bit to spare
    EXPECT_EQ(below, middle);
    limit[h] = to_bits(below) + (h % 2 == 0 ? 1 : 0);
  }
  return limit;
}

// What a float is narrowed to, by the table alone.
template <class Format>
class NarrowTable {
 public:
  explicit NarrowTable(std::uint32_t u) : limit_(table()) { move_to(u); }
  // The next float must be the successor of the last.
  std::uint16_t operator()(std::uint32_t u) {
    const std::uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return kNanBits16;
    while (h_ < kInfinity<Format> && limit_[h_] <= magnitude) ++h_;
    return static_cast<std::uint16_t>(h_ | (u >> 16 & 0x8000u));
  }

 private:
  static const std::vector<std::uint32_t>& table() {
    static const std::vector<std::uint32_t> limit = limits<Format>();
    return limit;
  }
  void move_to(std::uint32_t u) {
    h_ = static_cast<std::uint32_t>(
        std::upper_bound(limit_.begin(), limit_.end(), u & 0x7fffffffu) - limit_.begin());
  }
  const std::vector<std::uint32_t>& limit_;
  std::uint32_t h_ = 0;
};

std::string show(std::uint64_t u, std::uint16_t got, std::uint16_t expected) {
  char text[100];
  std::snprintf(text, sizeof(text), "float %08x: got %04x, expected %04x", static_cast<unsigned>(u),
                got, expected);
  return text;
}

TYPED_TEST(Float16, NarrowsEveryFloatToTheNearest) {
  const std::uint64_t bad = first_bad_of_all([](std::uint64_t begin, std::uint64_t end) {
    NarrowTable<TypeParam> nearest(static_cast<std::uint32_t>(begin));
    for (std::uint64_t u = begin; u < end; ++u) {
      const auto bits = static_cast<std::uint32_t>(u);
      if (TypeParam::narrow(bit_cast<float>(bits)).bits != nearest(bits)) return u;
    }
    return kNothing;
  });
  if (bad == kNothing) return;
  const auto bits = static_cast<std::uint32_t>(bad);
  FAIL() << show(bad, TypeParam::narrow(bit_cast<float>(bits)).bits,
                 NarrowTable<TypeParam>(bits)(bits));
}

TYPED_TEST(Float16, NarrowsWhatItWidened) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool nan = (half & 0x7fff) > kInfinity<TypeParam>;
    ASSERT_EQ(TypeParam::narrow(widen(typename TypeParam::Half{half})).bits,
              nan ? kNanBits16 : half);
    using Half = typename TypeParam::Half;
    const std::uint32_t expected = nan ? kNanBits16 : half;
    ASSERT_EQ(narrow<Half>(widen(Half{half})).bits, expected);
    ASSERT_EQ(narrow_two<Half>(widen(Half{half}), 0), expected);
    ASSERT_EQ(narrow_two<Half>(0, widen(Half{half})), expected << 16);
  }
}

TYPED_TEST(Float16, OverflowsAtItsThreshold) {
  using Half = typename TypeParam::Half;
  const float least = kOverflow<Half>;
  EXPECT_EQ(narrow<Half>(least).bits, kInfinity<TypeParam>);
  EXPECT_EQ(narrow<Half>(-least).bits, kInfinity<TypeParam> | 0x8000);
  EXPECT_EQ(narrow<Half>(std::nextafter(least, 0.0f)).bits, kInfinity<TypeParam> - 1);
}

TEST(Overflow, FloatAndDoubleOverflowAtInfinity) {
  EXPECT_EQ(kOverflow<float>, std::numeric_limits<float>::infinity());
  EXPECT_EQ(kOverflow<double>, std::numeric_limits<double>::infinity());
}

TEST(CanonicalNan, ReplacesEveryNanAndNothingElse) {
  const std::uint64_t bad = first_bad_float([](std::uint32_t bits) {
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return to_bits(canonical(bit_cast<float>(bits))) != (nan ? 0x7fffffffu : bits);
  });
  EXPECT_EQ(bad, kNothing) << std::hex << bad;
}

TEST(CanonicalNan, OfDoubles) {
  constexpr std::uint64_t kInf = 0x7ff0000000000000, kSign = 0x8000000000000000;
  for (std::uint64_t nan : {kInf + 1, 0x7ff8000000000000ul, 0x7ffffffffffffffful})
    for (std::uint64_t sign : {std::uint64_t{0}, kSign})
      EXPECT_EQ(to_bits(canonical(bit_cast<double>(nan | sign))), 0x7fffffffffffffffu);
  for (std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, kInf - 1, kInf})
    for (std::uint64_t sign : {std::uint64_t{0}, kSign})
      EXPECT_EQ(to_bits(canonical(bit_cast<double>(number | sign))), number | sign);
}

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 &&
         __builtin_cpu_supports("avx2");
}

__attribute__((target("avx2,f16c"))) std::uint64_t first_bad_f16c(std::uint64_t begin,
                                                                  std::uint64_t end) {
  alignas(32) std::uint32_t bits[8];
  alignas(16) std::uint16_t halves[8];
  for (std::uint64_t u = begin; u < end; u += 8) {
    for (int i = 0; i < 8; ++i) bits[i] = static_cast<std::uint32_t>(u) + i;
    const __m256 x = _mm256_castsi256_ps(_mm256_load_si256(reinterpret_cast<__m256i*>(bits)));
    _mm_store_si128(reinterpret_cast<__m128i*>(halves),
                    _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (int i = 0; i < 8; ++i) {
      if ((bits[i] & 0x7fffffffu) > 0x7f800000u) continue;  // F16C keeps a NaN's payload
      if (portable::narrow_float16(bit_cast<float>(bits[i])).bits != halves[i]) return u + i;
    }
  }
  return kNothing;
}

__attribute__((target("avx2,f16c"))) float widen_f16c(std::uint16_t h) { return _cvtsh_ss(h); }

TEST(F16C, AgreesOnEveryFloat) {
  if (!has_f16c()) GTEST_SKIP() << "this processor has no F16C";
  const std::uint64_t bad = first_bad_of_all(first_bad_f16c);
  EXPECT_EQ(bad, kNothing) << "float " << std::hex << bad;
}

TEST(F16C, AgreesOnEveryFloat16) {
  if (!has_f16c()) GTEST_SKIP() << "this processor has no F16C";
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = portable::widen(float16{static_cast<std::uint16_t>(bits)});
    const float y = widen_f16c(static_cast<std::uint16_t>(bits));
    if (std::isnan(x))
      ASSERT_TRUE(std::isnan(y)) << std::hex << bits;
    else
      ASSERT_EQ(to_bits(x), to_bits(y)) << std::hex << bits;
  }
}
#endif

#if defined(TWINOPS_TEST_CUDA_HEADERS)
TEST(CudaHeaders, NarrowAsWeDo) {
  const std::uint64_t bad = first_bad_float([](std::uint32_t bits) {
    const auto x = bit_cast<float>(bits);
    return __half_as_ushort(__float2half_rn(x)) != portable::narrow_float16(x).bits ||
           __bfloat16_as_ushort(__float2bfloat16_rn(x)) != portable::narrow_bfloat16(x).bits;
  });
  EXPECT_EQ(bad, kNothing) << "float " << std::hex << bad;
}

TEST(CudaHeaders, WidenAsWeDo) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    const float half = __half2float(__ushort_as_half(bits));
    const float brain = __bfloat162float(__ushort_as_bfloat16(bits));
    if (!std::isnan(half)) {
      ASSERT_EQ(to_bits(half), to_bits(widen(float16{bits})));
    }
    if (!std::isnan(brain)) {
      ASSERT_EQ(to_bits(brain), to_bits(widen(bfloat16{bits})));
    }
    ASSERT_EQ(std::isnan(half), std::isnan(widen(float16{bits})));
    ASSERT_EQ(std::isnan(brain), std::isnan(widen(bfloat16{bits})));
  }
}
#endif

}  // namespace
}  // namespace twinops
