// The gradients of softmax under masks: what is masked out gets +0 exactly, whatever dy and y hold
// there, and everything else what a float64 oracle gives; and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "twinops/twinops.hpp"

namespace {

constexpr unsigned kSeed = 20261128;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kBatch = 2, kHeads = 3, kQueries = 5;

using Values = std::vector<float>;
using Gradient = twinops::Report (*)(const twinops::Tensor&, const twinops::Tensor&,
                                     const twinops::Tensor&, const twinops::SoftmaxGradOptions&,
                                     const std::optional<twinops::Tensor>&,
                                     const std::optional<twinops::Tensor>&,
                                     const twinops::Execution&);

std::uint32_t bits(float v) {
  std::uint32_t u;
  std::memcpy(&u, &v, sizeof(u));
  return u;
}

// A mask in one of its forms, and which elements of [kBatch, kHeads, kQueries, keys] it leaves out.
struct Masked {
  const char* name;
  twinops::SoftmaxOptions options;
  std::function<bool(std::int64_t i)> is_out;
};

class SoftmaxGradMask : public testing::TestWithParam<std::tuple<bool, std::int64_t>> {
 protected:
  bool log = std::get<0>(GetParam());
  std::int64_t keys = std::get<1>(GetParam()), elements = kBatch * kHeads * kQueries * keys;
  std::vector<std::int64_t> shape{kBatch, kHeads, kQueries, keys};
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(elements);
  Values numbers = Values(kQueries * keys), x = Values(elements), dy = Values(elements);
  std::int64_t lengths[kBatch] = {(keys + 1) / 2, keys + 9};

  SoftmaxGradMask() {
    std::mt19937 generator(kSeed);
    std::normal_distribution<float> normal(0, 2);
    for (std::uint8_t& m : bytes) m = generator() % 3 == 0 ? 1 + generator() % 255 : 0;
    for (float& m : numbers) m = generator() % 4 == 0 ? -kInf : normal(generator);
    for (float& v : x) v = normal(generator);
    for (float& v : dy) v = normal(generator);
  }
  std::int64_t key(std::int64_t i) const { return i % keys; }
  std::int64_t query(std::int64_t i) const { return i / keys % kQueries; }
  std::vector<Masked> all_masks() {
    return {
        {"bytes",
         {.mask = twinops::Tensor(bytes.data(), shape)},
         [this](std::int64_t i) { return bytes[i] != 0; }},
        {"numbers",
         {.scale = 0.3f, .mask = twinops::Tensor(numbers.data(), {kQueries, keys})},
         [this](std::int64_t i) { return numbers[query(i) * keys + key(i)] == -kInf; }},
        {"lengths",
         {.lengths = twinops::Tensor(lengths, {kBatch})},
         [this](std::int64_t i) { return key(i) >= lengths[i / (keys * kQueries * kHeads)]; }},
        {"causal, two rows of nothing",
         {.causal = true, .causal_offset = -2},
         [this](std::int64_t i) { return key(i) > query(i) - 2; }},
        {"bytes, lengths and causal, zeros",
         {.masked_rows = "zeros",
          .mask = twinops::Tensor(bytes.data(), shape),
          .lengths = twinops::Tensor(lengths, {kBatch}),
          .causal = true,
          .causal_offset = keys - kQueries},
         [this](std::int64_t i) {
           return bytes[i] != 0 || key(i) >= lengths[i / (keys * kQueries * kHeads)] ||
                  key(i) > query(i) + keys - kQueries;
         }},
    };
  }
  Values forward(const twinops::SoftmaxOptions& options) {
    Values y(elements);
    const auto op = log ? twinops::log_softmax : twinops::softmax;
    op(twinops::Tensor(x.data(), shape), twinops::Tensor(y.data(), shape), options, {});
    return y;
  }
  Values backward(const Values& y, const Values& of_y, const twinops::SoftmaxOptions& options) {
    Values dx(elements, 9);
    const Gradient op = log ? twinops::log_softmax_grad : twinops::softmax_grad;
    op(twinops::Tensor(y.data(), shape), twinops::Tensor(of_y.data(), shape),
       twinops::Tensor(dx.data(), shape), options, {}, {}, {});
    return dx;
  }
};
INSTANTIATE_TEST_SUITE_P(Both, SoftmaxGradMask,
                         testing::Combine(testing::Bool(),
                                          testing::Values(1, 7, 64, 100, 1024, 3000)));

TEST_P(SoftmaxGradMask, WhatIsMaskedOutIsZeroAndNotRead) {
  for (const Masked& masked : all_masks()) {
    Values y = forward(masked.options), of_y = dy;
    const Values dx = backward(y, of_y, masked.options);
    for (std::int64_t i = 0; i < elements; ++i) {
      if (!masked.is_out(i)) continue;
      ASSERT_EQ(bits(dx[i]), 0u) << masked.name << ", element " << i << ", seed " << kSeed;
      y[i] = i % 2 == 0 ? kNan : 7;
      of_y[i] = i % 3 == 0 ? kNan : i % 3 == 1 ? -kInf : 3e38f;
    }
    const Values again = backward(y, of_y, masked.options);
    for (std::int64_t i = 0; i < elements; ++i)
      ASSERT_EQ(bits(again[i]), bits(dx[i])) << masked.name << ", element " << i;
  }
}

// From the float32 y that the call was given, in float64.
TEST_P(SoftmaxGradMask, AgreesWithTheFormulaInFloat64) {
  for (const Masked& masked : all_masks()) {
    const Values y = forward(masked.options), dx = backward(y, dy, masked.options);
    for (std::int64_t row = 0; row < elements; row += keys) {
      double sum = 0, size = 0;
      for (std::int64_t i = row; i < row + keys; ++i) {
        if (masked.is_out(i)) continue;
        const double term = log ? dy[i] : double{y[i]} * dy[i];
        sum += term;
        size += std::abs(term);
      }
      for (std::int64_t i = row; i < row + keys; ++i) {
        if (masked.is_out(i)) continue;
        const double p = log ? std::exp(double{y[i]}) : y[i];
        const double right = log ? dy[i] - p * sum : p * (dy[i] - sum);
        const double scale = masked.options.scale;
        ASSERT_NEAR(dx[i], scale * right, 4e-6 * scale * (std::abs(dy[i]) + p * size) + 1e-37)
            << masked.name << ", element " << i << ", seed " << kSeed;
      }
    }
  }
}

// Cross entropy with label smoothing over three classes of four: of a masked class, whose log
// probability is -infinity, a loss takes nothing, but its gradient is not 0.
TEST(SoftmaxGradMaskValues, LabelSmoothing) {
  const std::uint8_t out[] = {0, 0, 1, 0};
  const double x[] = {0, 0, 5, 0}, dy[] = {-0.925, -0.025, -0.025, -0.025};
  double y[4], dx[4];
  const twinops::SoftmaxOptions options{.mask = twinops::Tensor(out, {4})};
  twinops::log_softmax({x, {4}}, {y, {4}}, options);
  twinops::log_softmax_grad({y, {4}}, {dy, {4}}, {dx, {4}}, options);
  EXPECT_NEAR(y[0], -std::log(3), 1e-15);
  const double right[] = {-0.925 + 0.975 / 3, -0.025 + 0.975 / 3, 0, -0.025 + 0.975 / 3};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(dx[i], right[i], 1e-15) << i;
  EXPECT_EQ(dx[2], 0);
  twinops::log_softmax_grad({y, {4}}, {dy, {4}}, {dx, {4}});
  EXPECT_EQ(dx[2], -0.025) << "without the mask it is as any other";
}

// A NaN in dy at a masked place alone.
TEST(SoftmaxGradMaskValues, ANanUnderTheMaskHarmsNobody) {
  const std::int32_t length[] = {2};
  const double y[] = {0.25, 0.75, 0, 0}, dy[] = {4, 0, std::nan(""), -std::nan("")};
  double dx[4];
  twinops::softmax_grad({y, {1, 4}}, {dy, {1, 4}}, {dx, {1, 4}},
                        {.scale = 2, .lengths = twinops::Tensor(length, {1})});
  const double right[] = {1.5, -1.5, 0, 0};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(dx[i], right[i]) << i;
}

// Along an axis that is not the last, over dy in place, and in a 16-bit x's gradient from float32
// probabilities, under a mask of the type of x.
TEST(SoftmaxGradMaskValues, AnyAxisInPlaceAndTypes) {
  const std::uint16_t mask[] = {0, 0xfc00, 0, 0xfc00};  // float16: 0, -infinity
  const float y[] = {0.5, 9, 0.5, 9};
  float dy[] = {1, kNan, 3, kInf};
  const twinops::SoftmaxOptions along_0{.axis = 0,
                                        .mask = twinops::Tensor(mask, twinops::kFloat16, {4, 1})};
  std::uint16_t dx[4] = {};
  twinops::softmax_grad({y, {4, 1}}, {dy, {4, 1}}, {dx, twinops::kFloat16, {4, 1}}, along_0);
  EXPECT_EQ(dx[0], 0xb800);  // -0.5
  EXPECT_EQ(dx[1], 0);
  EXPECT_EQ(dx[2], 0x3800);
  EXPECT_EQ(dx[3], 0);
  const float wide[] = {0, -kInf, 0, -kInf};
  twinops::softmax_grad({y, {4, 1}}, {dy, {4, 1}}, {dy, {4, 1}},
                        {.axis = 0, .mask = twinops::Tensor(wide, {4, 1})});
  EXPECT_EQ(Values(dy, dy + 4), (Values{-0.5, 0, 0.5, 0}));
}

TEST(SoftmaxGradMaskValues, DropoutsGradientTakesTheMask) {
  const std::uint8_t out[] = {0, 1, 0, 0};
  const float p[] = {0.5, kNan, 0.25, 0.25}, dy[] = {1, kNan, 2, 4};
  float dx[4];
  twinops::softmax_dropout_grad({p, {4}}, {dy, {4}}, {dx, {4}}, {},
                                {.mask = twinops::Tensor(out, {4})}, {.p = 0});
  const float right[] = {-0.5, 0, 0, 0.5};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(dx[i], right[i]) << i;
}

std::string refusal(const twinops::SoftmaxOptions& options, DLDataType type = twinops::kFloat32) {
  double y[12] = {}, dy[12] = {}, dx[12] = {};
  try {
    twinops::log_softmax_grad({y, type, {3, 4}}, {dy, type, {3, 4}}, {dx, type, {3, 4}}, options);
  } catch (const twinops::Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    for (double v : dx) EXPECT_EQ(v, 0) << "something was written";
    return error.what();
  }
  return "was not refused";
}

TEST(SoftmaxGradMaskRefusals, EachHasItsMessage) {
  float f[12] = {};
  std::uint8_t b[12] = {};
  std::int32_t n[3] = {};
  EXPECT_EQ(refusal({.mask = twinops::Tensor(f, {4})}, twinops::kFloat64),
            "log_softmax_grad: mask: expected float64, bool, uint8, as dx is float64; got float32");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(b, {3})}),
            "log_softmax_grad: mask: expected a shape that broadcasts to dx's, [3, 4]; got [3]");
  EXPECT_EQ(refusal({.lengths = twinops::Tensor(n, {2})}),
            "log_softmax_grad: lengths: expected the shape of dx's first dimensions, of [3, 4]; "
            "got [2]");
  EXPECT_EQ(refusal({.axis = 0, .lengths = twinops::Tensor(n, {3})}),
            "log_softmax_grad: lengths: needs an axis of dx before the one that rows lie along");
  EXPECT_EQ(refusal({.causal_offset = 1}),
            "log_softmax_grad: causal_offset: is given without causal");
}

TEST(SoftmaxGradMaskRefusals, AMaskThatIsWrittenOver) {
  float y[4] = {}, dy[4] = {}, dx[4] = {};
  try {
    twinops::softmax_grad({y, {4}}, {dy, {4}}, {dx, {4}}, {.mask = twinops::Tensor(dx, {4})});
    FAIL() << "was not refused";
  } catch (const twinops::Error& error) {
    EXPECT_STREQ(error.what(),
                 "softmax_grad: dx: shares memory with softmax_grad: mask, but is not the same "
                 "tensor in place");
  }
}

}  // namespace
