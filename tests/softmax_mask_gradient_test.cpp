// dmask, the gradient of a mask that is added: right beside finite differences, summed over the
// axes that the mask was broadcast over in the order of every sum, rounded once; and what is
// refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "numerics/float16.hpp"
#include "numerics/fold.hpp"
#include "twinops/twinops.hpp"

namespace {

constexpr unsigned kSeed = 20261128;
using Shape = std::vector<std::int64_t>;

std::int64_t elements_of(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}
// Where element i of `shape` lies in a mask of `of` that is broadcast to it.
std::int64_t place(std::int64_t i, const Shape& shape, const Shape& of) {
  std::int64_t at = 0, step = 1;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::int64_t size = shape[shape.size() - 1 - k], index = i % size;
    i /= size;
    if (k >= of.size()) continue;
    const std::int64_t own = of[of.size() - 1 - k];
    if (own != 1) at += index * step;
    step *= own;
  }
  return at;
}
template <class T>
std::vector<T> normals(std::int64_t n, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& v : values) v = static_cast<T>(normal(generator));
  return values;
}

class MaskGradient : public testing::TestWithParam<bool> {
 protected:
  bool log = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Both, MaskGradient, testing::Bool());

TEST_P(MaskGradient, AgreesWithFiniteDifferences) {
  const Shape shape{2, 3, 4, 5};
  constexpr double kScale = 0.7, kStep = 1e-5;
  const auto x = normals<double>(elements_of(shape), kSeed);
  const auto dy = normals<double>(elements_of(shape), kSeed + 1);
  for (const Shape& of :
       {Shape{3, 4, 5}, Shape{5}, Shape{3, 1, 1}, Shape{2, 1, 4, 1}, Shape{}, shape}) {
    auto mask = normals<double>(elements_of(of), kSeed + 2);
    if (mask.size() > 2) mask[1] = -std::numeric_limits<double>::infinity();
    const auto forward = [&] {
      std::vector<double> y(x.size());
      const twinops::SoftmaxOptions options{.scale = kScale,
                                            .mask = twinops::Tensor(mask.data(), of)};
      (log ? twinops::log_softmax : twinops::softmax)({x.data(), shape}, {y.data(), shape}, options,
                                                      {});
      return y;
    };
    const auto y = forward();
    std::vector<double> dx(x.size()), dmask(mask.size(), 9);
    (log ? twinops::log_softmax_grad : twinops::softmax_grad)(
        {y.data(), shape}, {dy.data(), shape}, {dx.data(), shape},
        {.scale = kScale, .mask = twinops::Tensor(mask.data(), of)},
        twinops::Tensor(dmask.data(), of), {}, {});
    for (std::size_t m = 0; m < mask.size(); ++m) {
      if (!std::isfinite(mask[m])) {
        EXPECT_EQ(dmask[m], 0);
        EXPECT_FALSE(std::signbit(dmask[m]));
        continue;
      }
      const double kept = mask[m];
      mask[m] = kept + kStep;
      const auto up = forward();
      mask[m] = kept - kStep;
      const auto down = forward();
      mask[m] = kept;
      double difference = 0;
      for (std::size_t i = 0; i < y.size(); ++i)
        if (std::isfinite(y[i])) difference += dy[i] * (up[i] - down[i]) / (2 * kStep);
      EXPECT_NEAR(dmask[m], difference, 1e-8) << "mask " << of.size() << ", " << m;
    }
  }
}

// The gradients that are summed are dx of scale 1 in the compute type; with any scale and any type
// of dx the sums are the same.
TEST_P(MaskGradient, IsTheSumInTheOneOrderRoundedOnce) {
  const Shape shape{7, 5, 300, 4};
  const auto n = elements_of(shape);
  const auto dy = normals<float>(n, kSeed);
  auto y = normals<float>(n, kSeed + 3);
  for (float& v : y) v = log ? -std::abs(v) : std::abs(v) / 8;
  const auto op = log ? twinops::log_softmax_grad : twinops::softmax_grad;
  for (const Shape& of : {Shape{4}, Shape{5, 1, 1}, Shape{300, 4}, Shape{7, 1, 300, 1}, Shape{}}) {
    auto mask = normals<float>(elements_of(of), kSeed + 2);
    std::vector<float> d(n), dx(n), dmask(mask.size());
    const twinops::Tensor m(mask.data(), of);
    op({y.data(), shape}, {dy.data(), shape}, {d.data(), shape}, {.mask = m}, {}, {}, {});
    std::vector<std::vector<float>> values(mask.size());
    for (std::int64_t i = 0; i < n; ++i) values[place(i, shape, of)].push_back(d[i]);
    for (const double scale : {1.0, 0.3}) {
      op({y.data(), shape}, {dy.data(), shape}, {dx.data(), shape}, {.scale = scale, .mask = m},
         twinops::Tensor(dmask.data(), of), {}, {});
      for (std::size_t k = 0; k < values.size(); ++k) {
        const float right =
            twinops::folded_sum(values[k].data(), static_cast<std::int64_t>(values[k].size()));
        EXPECT_EQ(std::memcmp(&dmask[k], &right, sizeof right), 0)
            << dmask[k] << " is not " << right << ", sum " << k << " of " << values[k].size();
      }
    }
    // A 16-bit x: dx and dmask are rounded, the sum is of what was not.
    std::vector<std::uint16_t> half_mask(mask.size()), half_dx(n), half_dmask(mask.size());
    const twinops::Tensor half(half_mask.data(), twinops::kFloat16, of);
    op({y.data(), shape}, {dy.data(), shape}, {half_dx.data(), twinops::kFloat16, shape},
       {.mask = half}, twinops::Tensor(half_dmask.data(), twinops::kFloat16, of), {}, {});
    for (std::size_t k = 0; k < values.size(); ++k)
      EXPECT_EQ(half_dmask[k], twinops::narrow<twinops::float16>(
                                   twinops::folded_sum(values[k].data(),
                                                       static_cast<std::int64_t>(values[k].size())))
                                   .bits)
          << k;
  }
}

// Where dx lies changes nothing: sums whose first and last values are as far apart as neighbours',
// though what is between them lies elsewhere.
TEST_P(MaskGradient, IsTheSameWhereverDxLies) {
  struct Case {
    Shape shape, strides, of;
    std::int64_t lowest;  // of what is reached
  };
  const Case cases[] = {
      {{2, 3, 5, 1}, {15, 5, -4, 1}, {2, 3, 5, 1}, 16},
      {{3, 4, 4}, {16, 1, 4}, {4, 4}, 0},
      {{4, 2, 32}, {64, 1, 2}, {2, 32}, 0},
      {{3, 16}, {16, -1}, {16}, 15},
  };
  for (const std::string& row : twinops::available_rows())
    for (const Case& c : cases) {
      if (row.starts_with("cuda")) continue;
      const auto n = elements_of(c.shape);
      const auto y = normals<float>(n, kSeed), dy = normals<float>(n, kSeed + 1);
      const std::vector<float> mask(static_cast<std::size_t>(elements_of(c.of)));
      std::vector<float> wanted(mask.size()), dmask(mask.size()), dx(n + 64);
      const auto run = [&](std::vector<float>& sums, float* to, const Shape& strides) {
        (log ? twinops::log_softmax_grad : twinops::softmax_grad)(
            {y.data(), c.shape}, {dy.data(), c.shape}, {to, c.shape, twinops::kHost, strides},
            {.mask = twinops::Tensor(mask.data(), c.of)}, twinops::Tensor(sums.data(), c.of), {},
            {.row = row});
      };
      run(wanted, dx.data(), {});
      run(dmask, dx.data() + c.lowest, c.strides);
      EXPECT_EQ(std::memcmp(dmask.data(), wanted.data(), dmask.size() * sizeof(float)), 0)
          << row << ", " << testing::PrintToString(c.shape);
    }
}

TEST(MaskGradientValues, ByHand) {
  // Two rows of two, p = 1/2 each: d = p (dy - sum(p dy)) = (dy_0 - dy_1) / 4 and its negative.
  const float y[] = {0.5, 0.5, 0.5, 0.5}, mask[] = {0, 0};
  float dy[] = {4, 0, 8, 0}, dmask[2];
  twinops::softmax_grad({y, {2, 2}}, {dy, {2, 2}}, {dy, {2, 2}},
                        {.scale = 10, .mask = twinops::Tensor(mask, {2})},
                        twinops::Tensor(dmask, {2}));
  EXPECT_EQ(dy[0], 10);
  EXPECT_EQ(dy[3], -20);
  EXPECT_EQ(dmask[0], 3);
  EXPECT_EQ(dmask[1], -3);
}

TEST(MaskGradientValues, SumsOfNothingAreZero) {
  const float mask[3] = {};
  float none[1] = {}, dmask[3] = {9, 9, 9};
  twinops::softmax_grad({none, {0, 3}}, {none, {0, 3}}, {none, {0, 3}},
                        {.mask = twinops::Tensor(mask, {3})}, twinops::Tensor(dmask, {3}));
  for (const float v : dmask) EXPECT_EQ(v, 0);
}

std::string refusal(const twinops::SoftmaxGradOptions& options, const twinops::Tensor& dmask) {
  float y[12] = {}, dy[12] = {}, dx[12] = {};
  try {
    twinops::softmax_grad({y, {3, 4}}, {dy, {3, 4}}, {dx, {3, 4}}, options, dmask);
  } catch (const twinops::Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    return error.what();
  }
  return "was not refused";
}

TEST(MaskGradientRefusals, EachHasItsMessage) {
  float f[12] = {}, g[24] = {};
  std::uint8_t b[12] = {};
  EXPECT_EQ(refusal({}, {g, {4}}), "softmax_grad: dmask: is asked for, but no mask is given");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(b, {4})}, {g, {4}}),
            "softmax_grad: dmask: is asked for, but mask is uint8, which has no gradient");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(f, {3, 1})}, {g, {3, 4}}),
            "softmax_grad: dmask: expected the type and shape of mask, float32[3, 1]; got "
            "float32[3, 4]");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(f, {4})}, {g, {4}, twinops::kHost, {2}}),
            "softmax_grad: dmask: expected a tensor without gaps");
  EXPECT_EQ(
      refusal({.mask = twinops::Tensor(f, {4})}, {f, {4}}),
      "softmax_grad: dmask: shares memory with softmax_grad: mask, but is not the same tensor "
      "in place");
}

}  // namespace
