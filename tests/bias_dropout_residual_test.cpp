// bias_dropout_residual by hand: each term, and the order of the roundings. What it refuses is
// dropout_refusals_test.cpp.
#include <gtest/gtest.h>

#include "tests/support/dropout_row.hpp"

namespace twinops::test {
namespace {

class BiasRow : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, BiasRow, testing::ValuesIn(available_rows()), test_name);

TEST_P(BiasRow, AddsDropsAndAdds) {
  constexpr std::int64_t kRows = 37, kColumns = 24;
  constexpr std::size_t kN = kRows * kColumns;
  Floats x(kN), bias(kColumns), residual(kN), y(kN);
  for (std::size_t i = 0; i < kN; ++i) {
    x[i] = 0.1f * static_cast<float>(i);
    residual[i] = 1.0f / static_cast<float>(i + 3);
  }
  for (std::size_t c = 0; c < kColumns; ++c) bias[c] = 0.3f * static_cast<float>(c) - 2;
  const OnDevice x_at(GetParam(), x), bias_at(GetParam(), bias), residual_at(GetParam(), residual);
  const OnDevice y_at(GetParam(), y);
  const Shape shape = {kRows, kColumns};
  DropoutOptions options{.p = 0.2};
  options.random.seed = 4;
  const Bytes kept = draw({kRows, kColumns}, options).mask;
  bias_dropout_residual(x_at.tensor(shape), {bias_at.tensor({kColumns}), residual_at.tensor(shape)},
                        y_at.tensor(shape), {}, options, on_row());
  y_at.read(y);
  const float scale = 1.0f / (1.0f - 0.2f);
  for (std::size_t i = 0; i < kN; ++i) {
    const float sum = x[i] + bias[i % kColumns];
    const float dropped = kept[i] != 0 ? sum * scale : 0.0f;
    ASSERT_EQ(y[i], dropped + residual[i]) << i;
  }
  bias_dropout_residual(x_at.tensor(shape), {}, y_at.tensor(shape), {}, options, on_row());
  y_at.read(y);
  for (std::size_t i = 0; i < kN; ++i) ASSERT_EQ(y[i], kept[i] != 0 ? x[i] * scale : 0.0f) << i;
}

}  // namespace
}  // namespace twinops::test
