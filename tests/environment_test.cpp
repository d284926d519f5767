// The floating-point environment guard: sets the contract's, puts back the host's.
#include "numerics/environment.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "numerics/scalar.hpp"
#include "tests/support/host_modes.hpp"

namespace twinops {
namespace {

using test::float_control;
using test::InHostMode;
using test::kHostModes;

// `volatile`: computed when it is asked for, in the state of that moment.
float subnormal_product() {
  volatile float x = 1.5e-38f, half = 0.5f;
  return x * half;
}
float doubled_subnormal() {
  volatile std::uint32_t bits = 3;
  volatile float x = bit_cast<float>(bits), two = 2.0f;
  return x * two;
}
float third(float numerator) {
  volatile float a = numerator, three = 3.0f;
  return a / three;
}

TEST(FloatEnvironment, SetsTheContractsAndRestoresTheHosts) {
  for (const auto& mode : kHostModes) {
    SCOPED_TRACE(mode.name);
    const InHostMode host(mode);
    const unsigned long long before = float_control();
    {
      const FloatEnvironment environment;
      EXPECT_EQ(float_control(), kHostModes[0].control);
      EXPECT_EQ(to_bits(subnormal_product()), 0x0051aaf3u) << "flushed to zero";
      EXPECT_EQ(to_bits(doubled_subnormal()), 6u) << "denormals are zero";
      EXPECT_EQ(to_bits(third(1.0f)), 0x3eaaaaabu) << "rounded up";
      EXPECT_EQ(to_bits(third(2.0f)), 0x3f2aaaabu);
      EXPECT_EQ(to_bits(third(-1.0f)), 0xbeaaaaabu);
    }
    EXPECT_EQ(float_control(), before);
  }
}

// That these modes are set at all, so that the tests which use them mean something.
TEST(HostModes, ChangeResults) {
  for (const auto& mode : kHostModes) {
    if (&mode == kHostModes) continue;
    SCOPED_TRACE(mode.name);
    const InHostMode host(mode);
    const bool as_started =
        to_bits(subnormal_product()) == 0x0051aaf3u && to_bits(doubled_subnormal()) == 6u &&
        to_bits(third(1.0f)) == 0x3eaaaaabu && to_bits(third(-1.0f)) == 0xbeaaaaabu;
    EXPECT_FALSE(as_started);
  }
}

TEST(FloatEnvironment, Nests) {
  const InHostMode host(kHostModes[1]);
  const FloatEnvironment outer;
  { const FloatEnvironment inner; }
  EXPECT_EQ(float_control(), kHostModes[0].control);
}

TEST(FloatEnvironment, IsTheThreadsOwn) {
  const FloatEnvironment environment;
  unsigned long long seen = 0;
  std::thread([&] {
    const InHostMode host(kHostModes[1]);
    seen = float_control();
  }).join();
  EXPECT_EQ(seen, kHostModes[1].control);
  EXPECT_EQ(float_control(), kHostModes[0].control);
}

}  // namespace
}  // namespace twinops
