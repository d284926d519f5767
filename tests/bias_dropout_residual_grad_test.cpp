// bias_dropout_residual_grad: dx and dbias by hand, and what it refuses.
#include <gtest/gtest.h>

#include "numerics/fold.hpp"
#include "tests/support/dropout_row.hpp"
#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

class BiasGradRow : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, BiasGradRow, testing::ValuesIn(available_rows()), test_name);

// Scratch memory for the sums of chunks on a device.
Execution with_scratch(const std::string& row) {
  Execution execution;
  execution.row = row;
  if (!row.starts_with("cuda")) return execution;
  execution.allocate = [](void*, std::size_t bytes, void*) -> void* {
    void* memory = nullptr;
    twinops_allocate({kDLCUDA, 0}, bytes, &memory);
    return memory;
  };
  execution.release = [](void*, void* memory, std::size_t, void*) {
    twinops_synchronize({kDLCUDA, 0});
    twinops_release({kDLCUDA, 0}, memory);
  };
  return execution;
}

TEST_P(BiasGradRow, SumsTheRowsInOneOrder) {
  constexpr std::int64_t kRows = 2500, kColumns = 7;
  constexpr std::size_t kN = kRows * kColumns;
  Floats dy(kN), dx(kN), dbias(kColumns);
  for (std::size_t i = 0; i < kN; ++i) dy[i] = static_cast<float>(i * 7919 % 1013) * 0.001f - 0.37f;
  const OnDevice dy_at(GetParam(), dy), dx_at(GetParam(), dx), dbias_at(GetParam(), dbias);
  const Shape shape = {kRows, kColumns};
  DropoutOptions options{.p = 0.3};
  options.random.seed = 21;
  const Bytes kept = draw(shape, options).mask;
  bias_dropout_residual_grad(dy_at.tensor(shape), dx_at.tensor(shape), dbias_at.tensor({kColumns}),
                             {}, options, with_scratch(GetParam()));
  dx_at.read(dx);
  dbias_at.read(dbias);
  const float scale = 1.0f / (1.0f - 0.3f);
  for (std::size_t i = 0; i < kN; ++i) ASSERT_EQ(dx[i], kept[i] != 0 ? dy[i] * scale : 0.0f) << i;
  for (std::size_t c = 0; c < kColumns; ++c) {
    Floats column;
    for (std::size_t row = 0; row < kRows; ++row) column.push_back(dx[row * kColumns + c]);
    EXPECT_EQ(dbias[c], folded_sum(column.data(), kRows)) << "column " << c;
  }
}

// The gradient of a bias that was broadcast: the sum over the axes where it was, their elements in
// row-major order.
TEST_P(BiasGradRow, SumsOverTheAxesOfABroadcast) {
  struct Example {
    Shape shape, bias;
  };
  const Example examples[] = {
      {{2, 3, 4}, {1, 4}},
      {{2, 3, 4}, {1, 1, 4}},
      {{2, 3, 4}, {2, 1, 4}},
      {{2, 3, 4}, {1}},
      {{2, 3, 4}, {}},
      {{2, 3, 4}, {3, 4}},
      {{2, 3, 4}, {3, 1}},
      {{2, 3, 4}, {2, 1, 1}},
      {{2, 3, 4}, {2, 3, 1}},
      {{2, 3, 4}, {2, 3, 4}},
      {{5, 1, 4}, {1, 4}},
      {{3}, {1, 1, 1}},
      {{}, {}},
      {{70, 5, 33}, {1, 5, 1}},
      {{3, 1500, 9}, {3, 1, 9}},
      {{2, 3000}, {2, 1}},
      {{4, 3, 50, 8}, {1, 3, 1, 8}},
      {{2, 4, 3, 50, 8}, {2, 1, 3, 1, 8}},
      {{0, 4}, {1, 4}},
      {{40, 40}, {1, 1}},
  };
  for (const Example& of : examples) {
    const auto n = static_cast<std::size_t>(elements_of(of.shape));
    const auto sums = static_cast<std::size_t>(elements_of(of.bias));
    Floats dy(n), dx(n), dbias(sums, -7);
    for (std::size_t i = 0; i < n; ++i)
      dy[i] = static_cast<float>(i * 7919 % 1013) * 0.001f - 0.37f;
    const OnDevice dy_at(GetParam(), dy), dx_at(GetParam(), dx), dbias_at(GetParam(), dbias);
    bias_dropout_residual_grad(dy_at.tensor(of.shape), dx_at.tensor(of.shape),
                               dbias_at.tensor(of.bias), {}, {.p = 0.3}, with_scratch(GetParam()));
    dx_at.read(dx);
    dbias_at.read(dbias);
    std::vector<Floats> columns(sums);
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t rest = i, at = 0, step = 1;
      for (std::size_t axis = 0; axis < of.shape.size(); ++axis) {
        const auto size = static_cast<std::size_t>(of.shape[of.shape.size() - 1 - axis]);
        const std::size_t index = rest % size;
        rest /= size;
        if (axis >= of.bias.size() || of.bias[of.bias.size() - 1 - axis] == 1) continue;
        at += index * step;
        step *= size;
      }
      columns[at].push_back(dx[i]);
    }
    for (std::size_t c = 0; c < sums; ++c)
      EXPECT_EQ(dbias[c],
                folded_sum(columns[c].data(), static_cast<std::int64_t>(columns[c].size())))
          << n << " elements, " << sums << " sums, column " << c;
  }
}

TEST(BiasGrad, RefusesWhatItCannotSum) {
  float dy[40];
  struct {
    float dx[80], dbias[20];
  } written;
  std::memset(&written, 0xca, sizeof(written));
  const auto before = written;
  const auto refusal = [&](const View& dy_view, const View& dx_view, const View& dbias_view) {
    RawCall call("bias_dropout_residual_grad");
    call.add("dy", dy_view);
    call.add("dx", dx_view);
    call.add("dbias", dbias_view);
    EXPECT_EQ(call.run(), TWINOPS_INVALID_ARGUMENT);
    EXPECT_EQ(std::memcmp(&before, &written, sizeof(written)), 0) << "something was written";
    return std::string(twinops_last_error());
  };
  const std::string op = "bias_dropout_residual_grad: ";
  const View dy_view{dy, kF32, {4, 10}}, dx_view{written.dx, kF32, {4, 10}};
  EXPECT_EQ(refusal(dy_view, dx_view, {written.dbias, kF32, {9}}),
            op + "dbias: expected a shape that broadcasts to dx's, [4, 10]; got [9]");
  EXPECT_EQ(refusal(dy_view, dx_view, {written.dbias, kF32, {2, 1, 10}}),
            op + "dbias: expected a shape that broadcasts to dx's, [4, 10]; got [2, 1, 10]");
  EXPECT_EQ(refusal({dy, kF32, {2, 2, 2, 2, 2}}, {written.dx, kF32, {2, 2, 2, 2, 2}},
                    {written.dbias, kF32, {1, 2, 1, 2, 1}}),
            op + "dbias: expected one that is summed over axes that lie in at most two groups side "
                 "by side in dx, [2, 2, 2, 2, 2]; got [1, 2, 1, 2, 1]: sum dx in two steps");
  EXPECT_EQ(refusal(dy_view, dx_view, {written.dbias, kF16, {10}}),
            op + "dbias: expected the type of dx, float32; got float16");
  EXPECT_EQ(refusal(dy_view, dx_view, {written.dbias, kF32, {10}, {2}}),
            op + "dbias: expected a tensor without gaps");
  EXPECT_EQ(refusal(dy_view, {written.dx, kF32, {4, 10}, {20, 1}}, {written.dbias, kF32, {10}}),
            op + "dx: has gaps, but dbias is asked for");
}

}  // namespace
}  // namespace twinops::test
