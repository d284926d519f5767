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

// A bias of any shape that broadcasts gives what its copy of x's shape gives, in any strides.
TEST_P(BiasRow, BroadcastsAsPeopleExpect) {
  const Shape shape = {2, 3, 8, 16};
  constexpr std::size_t kN = 2 * 3 * 8 * 16;
  Floats x(kN);
  for (std::size_t i = 0; i < kN; ++i) x[i] = 0.1f * static_cast<float>(i);
  const OnDevice x_at(GetParam(), x);
  DropoutOptions options{.p = 0.2};
  const std::vector<Shape> shapes = {
      {},        {1},           {16},         {1, 16},       {1, 1, 16},       {8, 16},     {8, 1},
      {3, 1, 1}, {1, 3, 1, 16}, {2, 1, 8, 1}, {2, 1, 1, 16}, {1, 1, 1, 1, 16}, {2, 3, 8, 1}};
  for (const Shape& of : shapes) {
    const auto n = static_cast<std::size_t>(elements_of(of));
    Floats bias(n), full(kN), y(kN), expected(kN);
    for (std::size_t i = 0; i < n; ++i) bias[i] = 1.0f / static_cast<float>(i + 2);
    for (std::size_t i = 0; i < kN; ++i) {
      std::size_t rest = i, at = 0, step = 1;
      for (std::size_t axis = 0; axis < 4; ++axis) {
        const auto size = static_cast<std::size_t>(shape[3 - axis]);
        const std::size_t index = rest % size;
        rest /= size;
        if (axis >= of.size() || of[of.size() - 1 - axis] == 1) continue;
        at += index * step;
        step *= size;
      }
      full[i] = bias[at];
    }
    const OnDevice bias_at(GetParam(), bias), full_at(GetParam(), full), y_at(GetParam(), y);
    bias_dropout_residual(x_at.tensor(shape), {full_at.tensor(shape), {}}, y_at.tensor(shape), {},
                          options, on_row());
    y_at.read(expected);
    bias_dropout_residual(x_at.tensor(shape), {bias_at.tensor(of), {}}, y_at.tensor(shape), {},
                          options, on_row());
    y_at.read(y);
    EXPECT_EQ(y, expected) << of.size() << " dimensions, " << n << " elements";
  }
}

}  // namespace
}  // namespace twinops::test
