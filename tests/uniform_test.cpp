// uniform by hand: the ends of both ranges. cuRAND's numbers are uniform_curand_test.cpp.
#include <gtest/gtest.h>

#include "numerics/random.hpp"
#include "tests/support/dropout_row.hpp"

namespace twinops::test {
namespace {

class UniformRow : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, UniformRow, testing::ValuesIn(available_rows()), test_name);

TEST_P(UniformRow, IsWhatTheWordSays) {
  for (const char* layout : {"contiguous", "strided", "triton"}) {
    const RandomOptions options{.seed = 12, .layout = layout, .period = 3};
    Floats u(5000);
    const OnDevice at(GetParam(), u);
    uniform(at.tensor({50, 100}), options, on_row());
    at.read(u);
    const Words drawn = words({50, 100}, options);
    const bool triton = std::string(layout) == "triton";
    for (std::size_t i = 0; i < u.size(); ++i)
      ASSERT_EQ(u[i], triton ? triton_uniform(drawn[i]) : curand_uniform(drawn[i]))
          << layout << " " << i;
  }
}

static_assert(curand_uniform(0) == 0x1p-33f && curand_uniform(0xffffffffu) == 1.0f);
static_assert(triton_uniform(0) == 0.0f && triton_uniform(0xffffffffu) == 0.0f);
static_assert(triton_uniform(0x7fffffffu) < 1.0f && triton_uniform(0x80000000u) < 1.0f);

}  // namespace
}  // namespace twinops::test
