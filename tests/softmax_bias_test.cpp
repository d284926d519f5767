// A bias beside a mask or lengths, each broadcast for itself: the bits of one mask of numbers that
// says both, forward and backward; each one's gradient; and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "numerics/float16.hpp"
#include "numerics/fold.hpp"
#include "twinops/twinops.hpp"

namespace {

constexpr unsigned kSeed = 20261129;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kBatch = 3, kHeads = 4, kQueries = 5, kKeys = 67;
constexpr std::int64_t kElements = kBatch * kHeads * kQueries * kKeys;
const std::vector<std::int64_t> kShape{kBatch, kHeads, kQueries, kKeys};

using Values = std::vector<float>;
using twinops::Tensor;

testing::AssertionResult same(const Values& a, const Values& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes";
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  return testing::AssertionSuccess();
}

// A bias of heads [kHeads, 1, kKeys], which masks some out, beside a mask of the batch
// [kBatch, 1, 1, kKeys], of bytes or numbers; and one mask of numbers of kShape that says both. x
// is NaN and infinite, the bias NaN, where something is masked out.
class SoftmaxBias : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  bool log = std::get<0>(GetParam()), numbers = std::get<1>(GetParam());
  Values x = normals(kElements, 2), dy = normals(kElements, 1), both = Values(kElements);
  Values bias = normals(kHeads * kKeys, 1), added = normals(kBatch * kKeys, 1);
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kBatch * kKeys);
  std::mt19937 generator{kSeed};
  const testing::ScopedTrace seed{__FILE__, __LINE__, "seed " + std::to_string(kSeed)};

  Values normals(std::int64_t n, float deviation) {
    std::mt19937 own(kSeed + static_cast<unsigned>(n) + static_cast<unsigned>(deviation));
    std::normal_distribution<float> normal(0, deviation);
    Values values(static_cast<std::size_t>(n));
    for (float& v : values) v = normal(own);
    return values;
  }
  static std::int64_t of_bias(std::int64_t i) {
    return i / (kKeys * kQueries) % kHeads * kKeys + i % kKeys;
  }
  static std::int64_t of_mask(std::int64_t i) {
    return i / (kKeys * kQueries * kHeads) * kKeys + i % kKeys;
  }
  SoftmaxBias() {
    for (float& b : bias)
      if (generator() % 7 == 0) b = -kInf;
    for (std::size_t m = 0; m < bytes.size(); ++m)
      if (generator() % 4 == 0) bytes[m] = 1, added[m] = -kInf;
    for (std::int64_t i = 0; i < kElements; ++i) {
      const float b = bias[of_bias(i)], m = added[of_mask(i)];
      const bool out = b == -kInf || m == -kInf;
      both[i] = out ? -kInf : numbers ? b + m : b;
      if (out) x[i] = i % 2 == 0 ? kNan : kInf;
    }
  }
  Tensor mask() {
    const std::vector<std::int64_t> shape{kBatch, 1, 1, kKeys};
    return numbers ? Tensor(added.data(), shape) : Tensor(bytes.data(), twinops::kBool, shape);
  }
  Tensor bias_tensor() { return {bias.data(), {kHeads, 1, kKeys}}; }
  twinops::SoftmaxOptions apart() { return {.scale = 0.3f, .mask = mask(), .bias = bias_tensor()}; }
  twinops::SoftmaxOptions together() {
    return {.scale = 0.3f, .mask = Tensor(both.data(), kShape)};
  }
  Values forward(const twinops::SoftmaxOptions& options) {
    Values y(kElements);
    (log ? twinops::log_softmax : twinops::softmax)({x.data(), kShape}, {y.data(), kShape}, options,
                                                    {});
    return y;
  }
  Values backward(const Values& y, const twinops::SoftmaxOptions& options,
                  const std::optional<Tensor>& dmask, const std::optional<Tensor>& dbias) {
    Values dx(kElements);
    (log ? twinops::log_softmax_grad : twinops::softmax_grad)(
        {y.data(), kShape}, {dy.data(), kShape}, {dx.data(), kShape}, options, dmask, dbias, {});
    return dx;
  }
};
INSTANTIATE_TEST_SUITE_P(Both, SoftmaxBias, testing::Combine(testing::Bool(), testing::Bool()));

TEST_P(SoftmaxBias, IsOneMaskThatSaysBoth) {
  EXPECT_TRUE(same(forward(apart()), forward(together())));
  for (float& b : bias)
    if (b == -kInf) b = 0.5f;  // no longer: so does this test see that it was
  EXPECT_FALSE(same(forward(apart()), forward(together())));
}

TEST_P(SoftmaxBias, ANanInItDoesNotMatterUnderTheMask) {
  for (std::int64_t k = 0; k < kKeys; ++k) {
    bool always = true;
    for (std::int64_t b = 0; b < kBatch; ++b) always &= bytes[b * kKeys + k] != 0;
    if (k == 3) {  // a key that the mask leaves out of every batch
      for (std::int64_t b = 0; b < kBatch; ++b)
        bytes[b * kKeys + k] = 1, added[b * kKeys + k] = -kInf;
      always = true;
    }
    if (always)
      for (std::int64_t h = 0; h < kHeads; ++h) bias[h * kKeys + k] = h % 2 == 0 ? kNan : kInf;
  }
  for (std::int64_t i = 0; i < kElements; ++i)
    if (i % kKeys == 3) both[i] = -kInf;
  EXPECT_TRUE(same(forward(apart()), forward(together())));
}

TEST_P(SoftmaxBias, GradientsAreThoseOfOneMask) {
  const Values y = forward(together());
  Values d(kElements), dbias(bias.size()), dmask(added.size());
  for (std::int64_t i = 0; i < kElements; ++i)
    if (both[i] == -kInf) dy[i] = kNan;
  const Values dx = backward(y, together(), Tensor(d.data(), kShape), {});
  const std::optional<Tensor> asked =
      numbers ? std::optional<Tensor>({dmask.data(), {kBatch, 1, 1, kKeys}}) : std::nullopt;
  EXPECT_TRUE(same(backward(y, apart(), asked, Tensor(dbias.data(), {kHeads, 1, kKeys})), dx));
  std::vector<Values> of_bias_sums(bias.size()), of_mask_sums(added.size());
  for (std::int64_t i = 0; i < kElements; ++i) {
    of_bias_sums[of_bias(i)].push_back(d[i]);
    of_mask_sums[of_mask(i)].push_back(d[i]);
  }
  Values right;
  for (const Values& v : of_bias_sums)
    right.push_back(twinops::folded_sum(v.data(), static_cast<std::int64_t>(v.size())));
  EXPECT_TRUE(same(dbias, right));
  if (!numbers) return;
  right.clear();
  for (const Values& v : of_mask_sums)
    right.push_back(twinops::folded_sum(v.data(), static_cast<std::int64_t>(v.size())));
  EXPECT_TRUE(same(dmask, right));
}

TEST_P(SoftmaxBias, BesideLengthsAndTheTriangleItIsAMaskOfNumbers) {
  const std::int32_t lengths[] = {7, kKeys, 30};
  twinops::SoftmaxOptions options{
      .lengths = Tensor(lengths, {kBatch}), .causal = true, .causal_offset = 20};
  twinops::SoftmaxOptions as_mask = options;
  options.bias = bias_tensor();
  as_mask.mask = bias_tensor();
  for (float& v : x) v = std::isfinite(v) ? v : 1;
  const Values y = forward(options);
  EXPECT_TRUE(same(y, forward(as_mask)));
  Values dbias(bias.size()), dmask(bias.size());
  const Values dx = backward(y, options, {}, Tensor(dbias.data(), {kHeads, 1, kKeys}));
  EXPECT_TRUE(same(dx, backward(y, as_mask, Tensor(dmask.data(), {kHeads, 1, kKeys}), {})));
  EXPECT_TRUE(same(dbias, dmask));
}

TEST_P(SoftmaxBias, DropoutTakesItToo) {
  const twinops::DropoutOptions dropout{.p = 0.25, .random = {.seed = 7}};
  const auto run = [&](const twinops::SoftmaxOptions& options) {
    Values y(kElements);
    twinops::softmax_dropout({x.data(), kShape}, {y.data(), kShape}, {}, options, dropout);
    return y;
  };
  EXPECT_TRUE(same(run(apart()), run(together())));
  log = false;
  const Values p = forward(together());
  Values d(kElements), dbias(bias.size()), dx(kElements), again(kElements), right;
  twinops::softmax_dropout_grad({p.data(), kShape}, {dy.data(), kShape}, {dx.data(), kShape}, {},
                                together(), dropout, Tensor(d.data(), kShape));
  twinops::softmax_dropout_grad({p.data(), kShape}, {dy.data(), kShape}, {again.data(), kShape}, {},
                                apart(), dropout, {}, Tensor(dbias.data(), {kHeads, 1, kKeys}));
  EXPECT_TRUE(same(again, dx));
  std::vector<Values> sums(bias.size());
  for (std::int64_t i = 0; i < kElements; ++i) sums[of_bias(i)].push_back(d[i]);
  for (const Values& v : sums)
    right.push_back(twinops::folded_sum(v.data(), static_cast<std::int64_t>(v.size())));
  EXPECT_TRUE(same(dbias, right));
}

// Threads share the elements of what is made of both, and begin anywhere in its rows.
TEST(SoftmaxBiasThreads, BeginWithinARow) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  constexpr std::int64_t kRows = 23, kColumns = 2203, kAll = kRows * kColumns;
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  const auto drawn = [&](std::int64_t n) {
    Values values(static_cast<std::size_t>(n));
    for (float& v : values) v = random() % 5 == 0 ? -kInf : normal(random);
    return values;
  };
  const Values x = drawn(kAll), bias = drawn(kAll), mask = drawn(kColumns);
  Values dy(kAll), both = bias;
  for (float& v : dy) v = normal(random);
  for (std::int64_t i = 0; i < kAll; ++i) both[i] += mask[i % kColumns];
  const std::vector<std::int64_t> shape{kRows, kColumns};
  const twinops::SoftmaxOptions together{.mask = Tensor(both.data(), shape)},
      apart{.mask = Tensor(mask.data(), {kColumns}), .bias = Tensor(bias.data(), shape)};
  Values right(kAll), right_dx(kAll);
  twinops::softmax({x.data(), shape}, {right.data(), shape}, together, {.threads = 1});
  twinops::softmax_grad({right.data(), shape}, {dy.data(), shape}, {right_dx.data(), shape},
                        together, {}, {}, {.threads = 1});
  for (const int threads : {2, 3}) {
    Values y(kAll), dx(kAll);
    twinops::softmax({x.data(), shape}, {y.data(), shape}, apart, {.threads = threads});
    EXPECT_TRUE(same(y, right)) << threads << " threads";
    twinops::softmax_grad({right.data(), shape}, {dy.data(), shape}, {dx.data(), shape}, apart, {},
                          {}, {.threads = threads});
    EXPECT_TRUE(same(dx, right_dx)) << threads << " threads";
  }
}

// x: [2, 3, 40], a bias of heads [3, 40], numbers of the batch [2, 1, 40] beside it, of X, Bias and
// Mask; the right values in double, of what is stored.
template <class X, class Bias, class Mask>
void agrees_with_double(double tolerance) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  constexpr std::int64_t kB = 2, kH = 3, kK = 40, kAll = kB * kH * kK;
  constexpr double kScale = 0.3;
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal(0, 2);
  const auto drawn = [&]<class T>(std::int64_t n, T) {
    std::vector<T> values(static_cast<std::size_t>(n));
    for (T& v : values) v = twinops::narrow<T>(normal(random));
    return values;
  };
  const auto tensor = []<class T>(std::vector<T>& of, const std::vector<std::int64_t>& shape) {
    constexpr bool kHalf = std::is_same_v<T, twinops::float16>;
    return Tensor(of.data(), kHalf ? twinops::kFloat16 : twinops::kFloat32, shape);
  };
  const std::vector<std::int64_t> shape{kB, kH, kK};
  auto x = drawn(kAll, X{}), dx = x;
  auto bias = drawn(kH * kK, Bias{}), dbias = bias;
  auto mask = drawn(kB * kK, Mask{}), dmask = mask;
  Values dy = drawn(kAll, float{}), y(kAll);
  const twinops::SoftmaxOptions options{
      .scale = kScale, .mask = tensor(mask, {kB, 1, kK}), .bias = tensor(bias, {kH, kK})};
  twinops::softmax(tensor(x, shape), tensor(y, shape), options);
  twinops::softmax_grad(tensor(y, shape), tensor(dy, shape), tensor(dx, shape), options,
                        tensor(dmask, {kB, 1, kK}), tensor(dbias, {kH, kK}));
  std::vector<double> right_dbias(bias.size()), right_dmask(mask.size());
  for (std::int64_t row = 0; row < kB * kH; ++row) {
    const std::int64_t at = row * kK, bias_at = row % kH * kK, mask_at = row / kH * kK;
    double p[kK], sum = 0, dot = 0;
    for (std::int64_t k = 0; k < kK; ++k)
      sum += p[k] = std::exp(kScale * twinops::widen(x[at + k]) +
                             twinops::widen(bias[bias_at + k]) + twinops::widen(mask[mask_at + k]));
    for (double& of_key : p) of_key /= sum;
    for (std::int64_t k = 0; k < kK; ++k) dot += p[k] * dy[at + k];
    for (std::int64_t k = 0; k < kK; ++k) {
      const double d = p[k] * (dy[at + k] - dot);
      EXPECT_NEAR(y[at + k] / p[k], 1, tolerance) << row << " " << k;
      EXPECT_NEAR(twinops::widen(dx[at + k]), kScale * d, tolerance) << row << " " << k;
      right_dbias[bias_at + k] += d;
      right_dmask[mask_at + k] += d;
    }
  }
  for (std::size_t i = 0; i < bias.size(); ++i)
    EXPECT_NEAR(twinops::widen(dbias[i]), right_dbias[i], tolerance) << i;
  for (std::size_t i = 0; i < mask.size(); ++i)
    EXPECT_NEAR(twinops::widen(dmask[i]), right_dmask[i], tolerance) << i;
}
TEST(SoftmaxBiasValues, AgreeWithDouble) {
  agrees_with_double<float, float, float>(2e-6);
  agrees_with_double<twinops::float16, twinops::float16, twinops::float16>(2e-3);
  agrees_with_double<twinops::float16, float, twinops::float16>(2e-3);
  agrees_with_double<twinops::float16, twinops::float16, float>(2e-3);
}

TEST(SoftmaxBiasValues, ByHand) {
  // softmax of [0 + ln 3, 0] over the keys that are left.
  const double x[] = {0, 0, std::nan("")}, bias[] = {std::log(3), 0, std::nan("")};
  const std::uint8_t out[] = {0, 0, 1};
  double y[3];
  twinops::softmax({x, {3}}, {y, {3}}, {.mask = Tensor(out, {3}), .bias = Tensor(bias, {3})});
  EXPECT_NEAR(y[0], 0.75, 1e-15);
  EXPECT_NEAR(y[1], 0.25, 1e-15);
  EXPECT_EQ(y[2], 0);
}

std::string refusal(const twinops::SoftmaxOptions& options, DLDataType type = twinops::kFloat32) {
  double x[12] = {}, y[12] = {};
  try {
    twinops::softmax({x, type, {3, 4}}, {y, type, {3, 4}}, options);
  } catch (const twinops::Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    for (double v : y) EXPECT_EQ(v, 0) << "something was written";
    return error.what();
  }
  return "was not refused";
}

TEST(SoftmaxBiasRefusals, EachHasItsMessage) {
  float f[12] = {};
  double d[12] = {};
  std::uint8_t b[12] = {};
  EXPECT_EQ(refusal({.mask = Tensor(b, {4}), .bias = Tensor(d, {4})}),
            "softmax: bias: expected the type of x, float32; got float64");
  EXPECT_EQ(refusal({.bias = Tensor(d, {4})}, twinops::kFloat16),
            "softmax: bias: expected float16, float32, as x is float16; got float64");
  EXPECT_EQ(refusal({.mask = Tensor(b, {4}), .bias = Tensor(f, {3})}),
            "softmax: bias: expected a shape that broadcasts to x's, [3, 4]; got [3]");
  float y[4] = {}, g[4] = {};
  try {
    twinops::softmax_grad({y, {4}}, {y, {4}}, {g, {4}}, {}, {}, Tensor(f, {4}));
    FAIL() << "was not refused";
  } catch (const twinops::Error& error) {
    EXPECT_STREQ(error.what(), "softmax_grad: dbias: is asked for, but no bias is given");
  }
}

}  // namespace
