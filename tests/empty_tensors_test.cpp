// Single tensors without elements, which have no memory either: every operator takes NULL for them,
// on every row. (Empty members of lists: tools/proof.)
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tests/support/dropout_row.hpp"
#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

constexpr DLDataType kU32{kDLUInt, 32, 1};
// Beside a 0 a dimension may be anything: no arithmetic may overflow for it.
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

struct Given {
  const char* name;
  DLDataType type;
  std::vector<std::int64_t> shape;
};
struct EmptyCall {
  const char* op;
  std::vector<Given> arguments;
};

std::vector<EmptyCall> calls() {
  return {
      {"check_finite_and_unscale",
       {{"x", kF32, {0}}, {"scale", kF32, {}}, {"out", kF32, {0}}, {"found_inf", kBoolType, {}}}},
      {"update_loss_scaling",
       {{"x", kF16, {0, 3}},
        {"found_inf", kBoolType, {}},
        {"scale", kF32, {}},
        {"good_steps", kI32, {}},
        {"bad_steps", kI32, {}},
        {"out", kF16, {0, 3}},
        {"scale_out", kF32, {}},
        {"good_steps_out", kI32, {}},
        {"bad_steps_out", kI32, {}}}},
      {"dropout", {{"x", kF32, {0}}, {"y", kF32, {0}}, {"mask", kU32, {0}}}},
      {"dropout", {{"x", kF16, {0, 4}}, {"y", kF16, {0, 4}}, {"seeds", kI64, {0}}}},
      {"dropout_grad", {{"dy", kF32, {4, 0}}, {"dx", kF32, {4, 0}}, {"mask", kU8, {4, 0}}}},
      {"bias_dropout_residual",
       {{"x", kF32, {8, 0}}, {"bias", kF32, {0}}, {"residual", kF32, {8, 0}}, {"y", kF32, {8, 0}}}},
      {"bias_dropout_residual",
       {{"x", kF32, {0, 8}}, {"bias", kF32, {8}}, {"y", kF32, {0, 8}}, {"mask", kU8, {0, 8}}}},
      {"bias_dropout_residual_grad",
       {{"dy", kF32, {8, 0}}, {"dx", kF32, {8, 0}}, {"dbias", kF32, {0}}}},
      {"bias_dropout_residual_grad",
       {{"dy", kF32, {kHuge, 3, 0, 8}}, {"dx", kF32, {kHuge, 3, 0, 8}}, {"dbias", kF32, {8}}}},
      {"philox_words", {{"words", kU32, {0}}}},
      {"uniform", {{"out", kF32, {3, 0}}}},
      {"random_projection", {{"x", kF32, {0, 8}}, {"y", kF32, {0, 3}}}},
      {"random_projection", {{"x", kF32, {8, 3}}, {"y", kF32, {8, 0}}}},
      {"random_projection_grad", {{"dy", kF32, {0, 3}}, {"dx", kF32, {0, 8}}}},
      {"random_projection_grad", {{"dy", kF32, {8, 3}}, {"dx", kF32, {8, 0}}}},
      {"softmax", {{"x", kF32, {0, 4}}, {"out", kF16, {0, 4}}, {"mask", kU8, {0, 4}}}},
      {"softmax", {{"x", kF32, {4, 0}}, {"out", kF32, {4, 0}}, {"lengths", kI32, {4}}}},
      {"softmax", {{"x", kF32, {4, 0}}, {"out", kF32, {4, 0}}}},
      {"softmax", {{"x", kF32, {0, kHuge}}, {"out", kF32, {0, kHuge}}}},
      {"log_softmax", {{"x", kF64, {0}}, {"out", kF64, {0}}}},
      {"softmax_grad", {{"y", kF32, {0, 4}}, {"dy", kF32, {0, 4}}, {"dx", kF32, {0, 4}}}},
      {"softmax_grad",
       {{"y", kF32, {0, kHuge}}, {"dy", kF32, {0, kHuge}}, {"dx", kF32, {0, kHuge}}}},
      {"log_softmax_grad", {{"y", kF16, {4, 0}}, {"dy", kF16, {4, 0}}, {"dx", kF16, {4, 0}}}},
      {"softmax_dropout",
       {{"x", kF32, {0, 4}},
        {"y", kF32, {0, 4}},
        {"probabilities", kF32, {0, 4}},
        {"dropout_mask", kU32, {0}}}},
      {"softmax_dropout_grad",
       {{"probabilities", kF32, {4, 0}}, {"dy", kF32, {4, 0}}, {"dx", kF32, {4, 0}}}},
  };
}

// Without the product, which need not fit.
bool is_empty(const std::vector<std::int64_t>& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

class EmptyTensors : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryRow, EmptyTensors, testing::ValuesIn(available_rows()), test_name);

void expect_well(const EmptyCall& empty, const std::string& row) {
  const DLDevice device{row.starts_with("cuda") ? kDLCUDA : kDLCPU, 0};
  const OnDevice<double> memory(row, std::vector<double>(80, 1));
  const auto slots = static_cast<double*>(memory.tensor({80}).dlpack().data);
  std::deque<View> views;
  RawCall call(empty.op);
  for (const Given& given : empty.arguments) {
    double* const slot = slots + 8 * views.size();
    const bool none = is_empty(given.shape);
    views.emplace_back(none ? nullptr : slot, given.type, given.shape, std::vector<std::int64_t>{},
                       device);
    call.add(given.name, views.back());
  }
  call.execution.row = row.c_str();
  ASSERT_EQ(call.run(), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(call.report.row, row) << empty.op;
  EXPECT_EQ(twinops_synchronize(device), TWINOPS_OK) << empty.op << twinops_last_error();
}

TEST_P(EmptyTensors, NeedNoMemory) {
  for (const EmptyCall& empty : calls()) expect_well(empty, GetParam());
}

// A length beside one of 0 may be anything, and costs nothing: what walks over 2^40 rows, columns
// or entries that are not there is ended by ctest's time-out.
TEST_P(EmptyTensors, AnswerAtOnceHoweverLong) {
  constexpr std::int64_t kLong = std::int64_t{1} << 40;
  int tried = 0;
  for (const EmptyCall& empty : calls()) {
    std::set<std::int64_t> lengths, kept{0};
    for (const Given& given : empty.arguments)
      (is_empty(given.shape) ? lengths : kept).insert(given.shape.begin(), given.shape.end());
    for (const std::int64_t length : lengths) {
      if (kept.contains(length)) continue;
      EmptyCall longer = empty;
      for (Given& given : longer.arguments)
        std::replace(given.shape.begin(), given.shape.end(), length, kLong);
      SCOPED_TRACE(empty.op + (", " + std::to_string(length)) + " made longer");
      ASSERT_NO_FATAL_FAILURE(expect_well(longer, GetParam()));
      ++tried;
    }
  }
  EXPECT_GT(tried, 15);
}

// Sums of nothing are written all the same.
TEST_P(EmptyTensors, HaveSumsOfNothing) {
  const DLDevice device{GetParam().starts_with("cuda") ? kDLCUDA : kDLCPU, 0};
  const auto none = [&](std::vector<std::int64_t> shape) {
    return Tensor(static_cast<float*>(nullptr), std::move(shape), device);
  };
  Floats sums(24, 5), few(7, 5);
  const OnDevice sums_at(GetParam(), sums), few_at(GetParam(), few);
  const Execution execution{.row = GetParam()};
  bias_dropout_residual_grad(none({0, 7}), none({0, 7}), few_at.tensor({7}), {}, {}, execution);
  few_at.read(few);
  EXPECT_EQ(few, Floats(7, 0));
  Call("random_projection")
      .argument("x", none({8, 0}))
      .argument("y", sums_at.tensor({8, 3}))
      .run(execution);
  sums_at.read(sums);
  EXPECT_EQ(sums, Floats(24, 0));
}

}  // namespace
}  // namespace twinops::test
