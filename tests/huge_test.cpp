// Tensors and rows of more than 2^31 elements, on the best row of each backend. What every element
// must become is known without a reference: most are alike, and a few are marked.
#include <cmath>

#include "numerics/float16.hpp"
#include "tests/support/huge_tensor.hpp"
#include "tests/support/runners.hpp"

namespace twinops::test {
namespace {

std::vector<std::string> best_rows() {  // of each backend
  const std::vector<std::string> all = available_rows();
  std::vector<std::string> rows = {all.front()};
  if (!all.front().starts_with("cpu/"))
    for (const std::string& row : all)
      if (row.starts_with("cpu/") && rows.size() == 1) rows.push_back(row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(BestRows, HugeTensor, testing::ValuesIn(best_rows()),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find('/'));
                         });

std::uint16_t half(double value) {
  return portable::narrow_float16(static_cast<float>(value)).bits;
}

TEST_P(HugeTensor, IsUnscaledAndZeroed) {
  const auto marked = [](int value) {  // the marks follow the value
    Marks marks;
    for (std::size_t k = 0; k < marks.size(); ++k)
      marks[k] = static_cast<std::uint16_t>(value + 1 + static_cast<int>(k));
    return marks;
  };
  fill(0x4c00, marked(0x4c00));  // 16, and a little more
  put(0, 4.0f);
  put(4, std::uint8_t{0});
  // One thread walks further than 2^31; of 64 the last begins beyond.
  check_finite_and_unscale({tensor()}, scalar(0, kFloat32), {tensor()}, scalar(4, kUint8), {},
                           {.threads = 1, .row = GetParam()});
  EXPECT_EQ(get<std::uint8_t>(4), 0);
  EXPECT_EQ(first_other(0x4400, marked(0x4400)), kElements);

  // An infinity in the last element is found; then everything is zeroed.
  const std::uint16_t infinity = 0x7c00;
  check(twinops_copy(device_, static_cast<std::uint16_t*>(memory_) + kElements - 1, kHost,
                     &infinity, 2));
  check_finite_and_unscale({tensor()}, scalar(0, kFloat32), {tensor()}, scalar(4, kUint8), {},
                           {.threads = 64, .row = GetParam()});
  EXPECT_EQ(get<std::uint8_t>(4), 1);
  fetch();
  for (const std::int64_t mark : kMarks)
    EXPECT_TRUE(mark == kElements - 1 || (host_[mark] & 0xff00) == 0x3c00) << mark;
  put(8, std::int32_t{0});
  put(12, std::int32_t{0});
  const LossScaleState state{scalar(0, kFloat32), scalar(8, kInt32), scalar(12, kInt32)};
  update_loss_scaling({tensor()}, scalar(4, kUint8), state, {tensor()}, state, {},
                      {.row = GetParam()});
  EXPECT_EQ(get<std::int32_t>(12), 1);
  EXPECT_EQ(first_other(0, Marks{}), kElements);
}

// One row: eight elements so much greater than the others that these count for nothing. No element
// is what it becomes, so that one that is not written shows.
TEST_P(HugeTensor, IsARowOfSoftmax) {
  Marks marks;
  marks.fill(half(100));
  fill(half(1), marks);
  softmax(tensor(), tensor(), {}, {.row = GetParam()});
  marks.fill(half(1.0 / 8));
  EXPECT_EQ(first_other(0, marks), kElements);
}
TEST_P(HugeTensor, IsARowOfLogSoftmax) {
  Marks marks;
  marks.fill(half(100));
  fill(0, marks);
  log_softmax(tensor(), tensor(), {}, {.row = GetParam()});
  marks.fill(half(-std::log(8)));
  EXPECT_EQ(first_other(half(-100 - std::log(8)), marks), kElements);
}
// y is dy, of sixteenths: dx = y (y - sum y y).
TEST_P(HugeTensor, IsARowOfSoftmaxGrad) {
  Marks y, dx;
  double sum = 0;
  for (std::size_t k = 0; k < y.size(); ++k) {
    y[k] = half(static_cast<double>(k) / 16);
    sum += static_cast<double>(k * k) / 256;
  }
  for (std::size_t k = 0; k < y.size(); ++k)
    dx[k] = half(static_cast<double>(k) / 16 * (static_cast<double>(k) / 16 - sum));
  dx[0] = half(-0.0);
  fill(0, y);
  softmax_grad(tensor(), tensor(), tensor(), {}, {}, {}, {.row = GetParam()});
  EXPECT_EQ(first_other(half(-0.0), dx), kElements);
}

// Rows of 1024, whose elements are together more than 2^31: those that hold a mark are told apart.
TEST_P(HugeTensor, IsRowsOfSoftmax) {
  constexpr std::int64_t kRows = kElements / 1024, kLength = 1024;
  Marks marks;
  marks.fill(half(100));
  fill(0, marks);
  softmax(tensor({kRows, kLength}), tensor({kRows, kLength}), {}, {.row = GetParam()});
  fetch();
  const std::uint16_t alike = half(1.0 / kLength);
  std::int64_t before = -1;
  for (const std::int64_t mark : kMarks) {
    const std::int64_t row = mark / kLength;
    if (row == before || row == kRows) continue;
    before = row;
    std::int64_t marked = 0;
    for (const std::int64_t other : kMarks) marked += other / kLength == row;
    EXPECT_EQ(host_[mark], half(1.0 / static_cast<double>(marked))) << mark;
    for (std::int64_t i = row * kLength; i < (row + 1) * kLength; ++i) host_[i] = alike;
  }
  EXPECT_EQ(first_unlike(alike, kRows * kLength), kRows * kLength);
}

}  // namespace
}  // namespace twinops::test
