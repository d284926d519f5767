// The arithmetic of numerics/ on the device, against the same source on the host: conversions of
// every half and every float, NaNs, a loss scale's inverse, fused multiply-add, exp and log,
// Philox.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "numerics/exp.hpp"
#include "numerics/float16.hpp"
#include "numerics/log.hpp"
#include "numerics/philox.hpp"
#include "numerics/unscale.hpp"
#include "tests/support/cuda.hpp"

namespace twinops {
namespace {

using test::has_device;
using test::Managed;

constexpr unsigned kBlocks = 4096, kThreads = 256;

__device__ std::uint64_t first_index() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::uint64_t index_step() { return std::uint64_t{gridDim.x} * blockDim.x; }

// find: a kernel that lowers *first_bad to the least float that it finds wrong.
void expect_no_bad_float(void (*find)(unsigned long long* first_bad)) {
  Managed<unsigned long long> bad(1);
  bad[0] = ~0ull;
  find<<<kBlocks, kThreads>>>(bad.get());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(bad[0], ~0ull) << "float " << std::hex << bad[0];
}

// The least float whose conversion by the hardware is not the portable one.
__global__ void narrow_every_float(unsigned long long* first_bad) {
  for (std::uint64_t u = first_index(); u < std::uint64_t{1} << 32; u += index_step()) {
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(u));
    const std::uint32_t half = portable::narrow_float16(x).bits;
    const std::uint32_t brain = portable::narrow_bfloat16(x).bits;
    if (narrow<float16>(x).bits != half || narrow<bfloat16>(x).bits != brain ||
        narrow_two<float16>(x, -1) != (half | 0xbc00u << 16) ||
        narrow_two<bfloat16>(-1, x) != (0xbf80u | brain << 16))
      atomicMin(first_bad, static_cast<unsigned long long>(u));
  }
}

TEST(DeviceFloat16, NarrowsEveryFloatAsThePortableConversion) {
  TWINOPS_NEEDS_DEVICE;
  expect_no_bad_float(narrow_every_float);
}

// Every 251st float, converted there, compared here.
constexpr std::uint32_t kStep = 251;
__global__ void narrow_some(float16* half, bfloat16* brain, std::uint64_t n) {
  for (std::uint64_t i = first_index(); i < n; i += index_step()) {
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(i * kStep));
    half[i] = narrow<float16>(x);
    brain[i] = narrow<bfloat16>(x);
  }
}

TEST(DeviceFloat16, NarrowsAsTheHost) {
  TWINOPS_NEEDS_DEVICE;
  constexpr std::uint64_t kMany = (std::uint64_t{1} << 32) / kStep;
  Managed<float16> half(kMany);
  Managed<bfloat16> brain(kMany);
  narrow_some<<<kBlocks, kThreads>>>(half.get(), brain.get(), kMany);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(i * kStep));
    ASSERT_EQ(half[i].bits, narrow<float16>(x).bits) << std::hex << to_bits(x);
    ASSERT_EQ(brain[i].bits, narrow<bfloat16>(x).bits) << std::hex << to_bits(x);
  }
}

__global__ void widen_every_half(float* half, float* brain) {
  for (std::uint64_t i = first_index(); i < 65536; i += index_step()) {
    const auto bits = static_cast<std::uint16_t>(i);
    half[i] = widen(float16{bits});
    brain[i] = widen(bfloat16{bits});
  }
}

TEST(DeviceFloat16, WidensEveryHalfAsTheHost) {
  TWINOPS_NEEDS_DEVICE;
  Managed<float> half(65536), brain(65536);
  widen_every_half<<<64, kThreads>>>(half.get(), brain.get());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float h = widen(float16{bits}), b = widen(bfloat16{bits});
    if (std::isnan(h))
      ASSERT_TRUE(std::isnan(half[i])) << std::hex << i;
    else
      ASSERT_EQ(to_bits(half[i]), to_bits(h)) << std::hex << i;
    if (std::isnan(b))
      ASSERT_TRUE(std::isnan(brain[i])) << std::hex << i;
    else
      ASSERT_EQ(to_bits(brain[i]), to_bits(b)) << std::hex << i;
  }
}

__global__ void canonical_every_float(unsigned long long* first_bad) {
  for (std::uint64_t u = first_index(); u < std::uint64_t{1} << 32; u += index_step()) {
    const auto bits = static_cast<std::uint32_t>(u);
    const std::uint32_t expected = (bits & 0x7fffffffu) > 0x7f800000u ? kNanBits32 : bits;
    if (to_bits(canonical(bit_cast<float>(bits))) != expected)
      atomicMin(first_bad, static_cast<unsigned long long>(u));
  }
}

TEST(DeviceNan, IsCanonicalForEveryFloat) {
  TWINOPS_NEEDS_DEVICE;
  expect_no_bad_float(canonical_every_float);
}

// Whether `inverse` is what a division gives, or a NaN in place of what is no normal number.
template <class F>
__device__ bool is_inverse(F inverse, F divided, F least_normal) {
  if (inverse == inverse) return to_bits(inverse) == to_bits(divided);
  return !(abs(divided) >= least_normal);
}
// The least float whose inverse as a loss scale is not that, or is another than the double's.
__global__ void inverse_of_every_float(unsigned long long* first_bad) {
  for (std::uint64_t u = first_index(); u < std::uint64_t{1} << 32; u += index_step()) {
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(u));
    const double wide = x, divided = __drcp_rn(wide);
    const float inverse = inverse_scale<float16>(x);
    if (!is_inverse(inverse, __double2float_rn(divided), 0x1p-126f) ||
        !is_inverse(inverse_scale<double>(x), divided, 0x1p-1022) ||
        to_bits(canonical(inverse)) != to_bits(canonical(inverse_scale<float16>(wide))) ||
        to_bits(canonical(inverse_scale<double>(x))) !=
            to_bits(canonical(inverse_scale<double>(wide))))
      atomicMin(first_bad, static_cast<unsigned long long>(u));
  }
}

TEST(DeviceInverseScale, IsADivisionOfDoublesForEveryFloat) {
  TWINOPS_NEEDS_DEVICE;
  expect_no_bad_float(inverse_of_every_float);
}

// The operations that formulas are made of, canonical NaN included.
// Bits of the four at every 251st float.
struct ExpAndLog {
  std::uint32_t exp, log, mantissa, exponent;
  __host__ __device__ static ExpAndLog at(std::uint64_t i) {
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(i * kStep));
    const ExpParts<float> near = near_exp_parts(x, ExpTable<float>::kMagic);
    const auto bits = [](float y) { return y == y ? to_bits(y) : kNanBits32; };
    return {bits(twinops::exp(x)), bits(twinops::log(x)), bits(near.mantissa), bits(near.exponent)};
  }
};
__global__ void exp_and_log(ExpAndLog* out, std::uint64_t n) {
  for (std::uint64_t i = first_index(); i < n; i += index_step()) out[i] = ExpAndLog::at(i);
}

TEST(DeviceExp, HasTheHostsBits) {
  TWINOPS_NEEDS_DEVICE;
  constexpr std::uint64_t kMany = (std::uint64_t{1} << 32) / kStep;
  Managed<ExpAndLog> out(kMany);
  exp_and_log<<<kBlocks, kThreads>>>(out.get(), kMany);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const ExpAndLog here = ExpAndLog::at(i);
    ASSERT_TRUE(here.exp == out[i].exp && here.log == out[i].log &&
                here.mantissa == out[i].mantissa && here.exponent == out[i].exponent)
        << "float " << std::hex << i * kStep;
  }
}

constexpr int kOperations = 5;
template <class F>
TWINOPS_INLINE F operation(int which, F a, F b, F c) {
  return canonical(which == 0   ? a + b
                   : which == 1 ? a - b
                   : which == 2 ? a * b
                   : which == 3 ? a / b
                                : fma(a, b, c));
}
template <class F>
__global__ void operate(const F* a, const F* b, const F* c, F* y, std::uint64_t n) {
  for (std::uint64_t i = first_index(); i < n; i += index_step())
    for (int k = 0; k < kOperations; ++k) y[i * kOperations + k] = operation(k, a[i], b[i], c[i]);
}

template <class F>
class DeviceArithmetic : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(DeviceArithmetic, Floats);

// Any bits, but often a special value, or one near 1, so that results are not all out of range.
template <class F>
F any_value(std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(F) == 4, std::uint32_t, std::uint64_t>;
  using Limits = std::numeric_limits<F>;
  const F special[] = {F(0),          F(1),          Limits::infinity(),   Limits::quiet_NaN(),
                       Limits::max(), Limits::min(), Limits::denorm_min(), F(3)};
  const std::uint64_t r = random();
  const F sign = r >> 63 ? F(-1) : F(1);
  if (r % 4 == 0) return sign * special[r / 4 % 8];
  if (r % 4 == 1) return bit_cast<F>(static_cast<Bits>(random()));
  return sign * (F(1) + static_cast<F>(random()) / F(18446744073709551616.0)) *
         std::ldexp(F(1), static_cast<int>(r / 4 % 40) - 20);
}

TYPED_TEST(DeviceArithmetic, EqualsTheHosts) {
  TWINOPS_NEEDS_DEVICE;
  using F = TypeParam;
  constexpr unsigned kSeed = 90;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  constexpr std::uint64_t kMany = 1 << 20;
  std::mt19937_64 random(kSeed);
  Managed<F> a(kMany), b(kMany), c(kMany), y(kMany * kOperations);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    a[i] = any_value<F>(random);
    b[i] = any_value<F>(random);
    // Often the product's opposite, so that its last bits are what an fma leaves.
    c[i] = i % 3 == 0 ? -(a[i] * b[i]) : any_value<F>(random);
  }
  operate<<<1024, kThreads>>>(a.get(), b.get(), c.get(), y.get(), kMany);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (std::uint64_t i = 0; i < kMany; ++i)
    for (int k = 0; k < kOperations; ++k)
      ASSERT_EQ(to_bits(y[i * kOperations + k]), to_bits(operation(k, a[i], b[i], c[i])))
          << "operation " << k << std::hexfloat << " of " << a[i] << ", " << b[i] << ", " << c[i];
}

__global__ void draw(std::uint64_t seed, PhiloxBlock<std::uint32_t>* blocks, std::uint64_t n) {
  for (std::uint64_t i = first_index(); i < n; i += index_step())
    blocks[i] = philox_block(seed + i % 7, i * 0x9E3779B97F4A7C15u, i << (i % 40));
}

TEST(DevicePhilox, EqualsTheHosts) {
  TWINOPS_NEEDS_DEVICE;
  constexpr std::uint64_t kMany = 1 << 20, kSeed = 0x123456789abcdef0;
  Managed<PhiloxBlock<std::uint32_t>> blocks(kMany);
  draw<<<1024, kThreads>>>(kSeed, blocks.get(), kMany);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto expected = philox_block(kSeed + i % 7, i * 0x9E3779B97F4A7C15u, i << (i % 40));
    for (int w = 0; w < 4; ++w) ASSERT_EQ(blocks[i].w[w], expected.w[w]) << i;
  }
}

}  // namespace
}  // namespace twinops
