// softmax under a scale and masks: whatever the mask's form, the bits are those of plain softmax
// over the values that docs/numerics.md names; and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "twinops/twinops.hpp"

namespace {

constexpr unsigned kSeed = 20261121;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::int64_t kBatch = 2, kHeads = 3, kQueries = 5;

using Values = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;
using Reduction = twinops::Report (*)(const twinops::Tensor&, const twinops::Tensor&,
                                      const twinops::SoftmaxOptions&, const twinops::Execution&);

// Attention scores of [batch, heads, queries, keys].
struct Scores {
  std::int64_t keys;
  Values x;
  Scores(std::int64_t keys_, unsigned seed) : keys(keys_), x(kBatch * kHeads * kQueries * keys_) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0, 3);
    for (float& v : x) v = normal(generator);
  }
  std::vector<std::int64_t> shape() const { return {kBatch, kHeads, kQueries, keys}; }
  std::int64_t key(std::size_t i) const { return static_cast<std::int64_t>(i) % keys; }
  std::int64_t query(std::size_t i) const { return static_cast<std::int64_t>(i) / keys % kQueries; }
  std::int64_t batch(std::size_t i) const {
    return static_cast<std::int64_t>(i) / (keys * kQueries * kHeads);
  }
  Values run(Reduction op, const twinops::SoftmaxOptions& options = {}) const {
    Values y(x.size());
    op(twinops::Tensor(x.data(), shape()), twinops::Tensor(y.data(), shape()), options, {});
    return y;
  }
};

std::uint32_t bits(float v) {
  std::uint32_t u;
  std::memcpy(&u, &v, sizeof(u));
  return u;
}
testing::AssertionResult same(const Values& a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (bits(a[i]) != bits(b[i]))
      return testing::AssertionFailure()
             << "element " << i << ": " << a[i] << " and " << b[i] << ", seed " << kSeed;
  return testing::AssertionSuccess();
}

class SoftmaxMask : public testing::TestWithParam<std::tuple<Reduction, std::int64_t>> {
 protected:
  Reduction op = std::get<0>(GetParam());
  Scores scores{std::get<1>(GetParam()), kSeed};
  // The values with some masked out, by plain softmax.
  template <class Out>
  Values expected(Out&& is_out) {
    Scores plain = scores;
    for (std::size_t i = 0; i < plain.x.size(); ++i)
      if (is_out(i)) plain.x[i] = -kInf;
    return plain.run(op);
  }
};
INSTANTIATE_TEST_SUITE_P(Both, SoftmaxMask,
                         testing::Combine(testing::Values(twinops::softmax, twinops::log_softmax),
                                          testing::Values(1, 7, 64, 100, 1024, 3000)));

TEST_P(SoftmaxMask, BytesMaskOutWhateverIsThere) {
  Bytes mask(scores.x.size());
  std::mt19937 generator(kSeed);
  for (std::uint8_t& m : mask) m = generator() % 3 == 0 ? 1 + generator() % 255 : 0;
  const Values y = expected([&](std::size_t i) { return mask[i] != 0; });
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0) scores.x[i] = i % 2 == 0 ? std::nanf("") : kInf;
  EXPECT_TRUE(same(scores.run(op, {.mask = twinops::Tensor(mask.data(), scores.shape())}), y));
}

TEST_P(SoftmaxMask, BytesAreBroadcast) {
  Bytes mask(static_cast<std::size_t>(kBatch * scores.keys));
  std::mt19937 generator(kSeed);
  for (std::uint8_t& m : mask) m = generator() % 3 == 0;
  const Values y = expected([&](std::size_t i) {
    return mask[static_cast<std::size_t>(scores.batch(i) * scores.keys + scores.key(i))] != 0;
  });
  EXPECT_TRUE(same(scores.run(op, {.mask = twinops::Tensor(mask.data(), twinops::kBool,
                                                           {kBatch, 1, 1, scores.keys})}),
                   y));
  EXPECT_TRUE(
      same(scores.run(op, {.mask = twinops::Tensor(mask.data(), scores.shape(), twinops::kHost,
                                                   {scores.keys, 0, 0, 1})}),
           y));
}

TEST_P(SoftmaxMask, NumbersAreAddedInOneRounding) {
  Values mask(scores.x.size());
  std::mt19937 generator(kSeed + 1);
  for (float& m : mask)
    m = generator() % 4 == 0 ? -kInf : static_cast<float>(generator() % 4096) * 0x1p-9f - 4;
  constexpr float kScale = 0.3f;
  Scores plain = scores;
  for (std::size_t i = 0; i < mask.size(); ++i) plain.x[i] = std::fma(kScale, plain.x[i], mask[i]);
  const Values y = plain.run(op);
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i] == -kInf) scores.x[i] = i % 2 == 0 ? std::nanf("") : kInf;
  const twinops::Tensor added(mask.data(), scores.shape());
  EXPECT_TRUE(same(scores.run(op, {.scale = kScale, .mask = added}), y));
}

TEST_P(SoftmaxMask, ScaleIsOneRounding) {
  Scores plain = scores;
  for (float& v : plain.x) v = 0.3f * v;
  EXPECT_TRUE(same(scores.run(op, {.scale = 0.3f}), plain.run(op)));
}

TEST_P(SoftmaxMask, CausalIsAMaskOfATriangle) {
  for (const std::int64_t offset : {std::int64_t{0}, scores.keys - kQueries, std::int64_t{-2}}) {
    const auto is_out = [&](std::size_t i) { return scores.key(i) > scores.query(i) + offset; };
    const Values y = expected(is_out);
    Scores holed = scores;
    for (std::size_t i = 0; i < holed.x.size(); ++i)
      if (is_out(i)) holed.x[i] = std::nanf("");
    EXPECT_TRUE(same(holed.run(op, {.causal = true, .causal_offset = offset}), y)) << offset;
  }
}

TEST_P(SoftmaxMask, LengthsMaskTheEnd) {
  const std::int64_t lengths[] = {(scores.keys + 1) / 2, scores.keys + 7};
  const auto is_out = [&](std::size_t i) { return scores.key(i) >= lengths[scores.batch(i)]; };
  const Values y = expected(is_out);
  for (std::size_t i = 0; i < scores.x.size(); ++i)
    if (is_out(i)) scores.x[i] = std::nanf("");
  EXPECT_TRUE(same(scores.run(op, {.lengths = twinops::Tensor(lengths, {kBatch})}), y));
}

TEST_P(SoftmaxMask, RowsOfNothing) {
  const std::int32_t none[] = {0};
  const bool log = op == static_cast<Reduction>(twinops::log_softmax);
  const twinops::Tensor lengths(none, {1});
  for (float y : scores.run(op, {.lengths = lengths})) EXPECT_EQ(bits(y), 0x7fffffffu);
  for (float y : scores.run(op, {.masked_rows = "zeros", .lengths = lengths}))
    EXPECT_EQ(y, log ? -kInf : 0.0f);
}

// With finite gradients softmax's backward pass needs no mask: what is masked out has y = 0.
TEST(SoftmaxMaskGradient, AgreesWithFiniteDifferences) {
  constexpr std::int64_t n = 300;
  constexpr double kScale = 0.7;
  std::mt19937_64 generator(kSeed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n), mask(n), dy(n), y(n), dx(n), up(n), down(n);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = normal(generator);
    dy[i] = normal(generator);
    mask[i] = i % 3 == 0 ? -std::numeric_limits<double>::infinity() : normal(generator);
  }
  const auto t = [](std::vector<double>& v) { return twinops::Tensor(v.data(), {n}); };
  const auto forward = [&](std::vector<double>& out) {
    twinops::softmax(t(x), t(out), {.scale = kScale, .mask = t(mask)});
  };
  forward(y);
  twinops::softmax_grad(t(y), t(dy), t(dx), {.scale = kScale});
  for (std::int64_t i = 0; i < n; ++i) {
    if (i % 3 == 0) {
      EXPECT_EQ(dx[i], 0) << i;
      continue;
    }
    constexpr double h = 1e-5;
    const double kept = x[i];
    x[i] = kept + h;
    forward(up);
    x[i] = kept - h;
    forward(down);
    x[i] = kept;
    double difference = 0;
    for (std::int64_t j = 0; j < n; ++j) difference += dy[j] * (up[j] - down[j]) / (2 * h);
    EXPECT_NEAR(dx[i], difference, 1e-8) << i << ", seed " << kSeed;
  }
}

TEST(SoftmaxMaskGradient, RowsOfZerosGiveZeros) {
  Values y(50, 0), dy(50, 3), dx(50, 9);
  twinops::softmax_grad({y.data(), {2, 25}}, {dy.data(), {2, 25}}, {dx.data(), {2, 25}},
                        {.scale = 4});
  for (float v : dx) EXPECT_EQ(v, 0);
}

TEST(SoftmaxMaskGradient, ScaleComesLast) {
  for (const std::string op : {"softmax_grad", "log_softmax_grad"}) {
    Values y(1500), dy(1500), plain(1500), scaled(1500);
    std::mt19937 generator(kSeed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = op[0] == 's' ? 0.001f : -7.3f;
      dy[i] = normal(generator);
    }
    const auto run = [&](Values& dx, double scale) {
      twinops::Call(op)
          .argument("y", twinops::Tensor(y.data(), {1500}))
          .argument("dy", twinops::Tensor(dy.data(), {1500}))
          .argument("dx", twinops::Tensor(dx.data(), {1500}))
          .attribute("scale", scale)
          .run();
    };
    run(plain, 1);
    run(scaled, 0.3f);
    for (float& v : plain) v = 0.3f * v;
    EXPECT_TRUE(same(plain, scaled)) << op;
  }
}

// ---- What is refused ---------------------------------------------------------------------------

std::string refusal(const twinops::SoftmaxOptions& options, std::vector<std::int64_t> shape,
                    DLDataType type = twinops::kFloat32) {
  double x[24] = {}, y[24] = {};
  try {
    twinops::softmax({x, type, shape}, {y, type, shape}, options);
  } catch (const twinops::Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    for (double v : y) EXPECT_EQ(v, 0) << "something was written";
    return error.what();
  }
  return "was not refused";
}

TEST(SoftmaxMaskRefusals, EachHasItsMessage) {
  float f[24] = {};
  double d[24] = {};
  std::uint8_t b[24] = {};
  std::int32_t n[4] = {};
  EXPECT_EQ(refusal({.mask = twinops::Tensor(d, {3, 4})}, {3, 4}),
            "softmax: mask: expected float32, bool, uint8, as x is float32; got float64");
  EXPECT_EQ(
      refusal({.mask = twinops::Tensor(f, twinops::kBfloat16, {4})}, {3, 4}, twinops::kFloat16),
      "softmax: mask: expected float16, float32, bool, uint8, as x is float16; got bfloat16");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(f, {4})}, {3, 4}, twinops::kFloat64),
            "softmax: mask: expected float64, bool, uint8, as x is float64; got float32");
  // Types that no mask has are told the same, and have names.
  const auto of_type = [&](DLDataType type, DLDataType x) {
    return refusal({.mask = twinops::Tensor(d, type, {3, 4})}, {3, 4}, x);
  };
  EXPECT_EQ(of_type({kDLInt, 64, 1}, twinops::kFloat32),
            "softmax: mask: expected float32, bool, uint8, as x is float32; got int64");
  EXPECT_EQ(of_type({kDLInt, 8, 1}, twinops::kBfloat16),
            "softmax: mask: expected bfloat16, float32, bool, uint8, as x is bfloat16; got int8");
  EXPECT_EQ(of_type({kDLUInt, 16, 1}, twinops::kFloat64),
            "softmax: mask: expected float64, bool, uint8, as x is float64; got uint16");
  EXPECT_EQ(of_type({kDLInt, 16, 1}, twinops::kFloat64),
            "softmax: mask: expected float64, bool, uint8, as x is float64; got int16");
  EXPECT_EQ(of_type({5, 64, 1}, twinops::kFloat32),
            "softmax: mask: expected float32, bool, uint8, as x is float32; got complex64");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(b, {3})}, {3, 4}),
            "softmax: mask: expected a shape that broadcasts to x's, [3, 4]; got [3]");
  EXPECT_EQ(refusal({.mask = twinops::Tensor(b, {1, 3, 4})}, {3, 4}),
            "softmax: mask: expected a shape that broadcasts to x's, [3, 4]; got [1, 3, 4]");
  EXPECT_EQ(refusal({.lengths = twinops::Tensor(n, {3})}, {2, 4}),
            "softmax: lengths: expected the shape of x's first dimensions, of [2, 4]; got [3]");
  EXPECT_EQ(refusal({.lengths = twinops::Tensor(n, {2, 1})}, {2, 4}),
            "softmax: lengths: expected 1 to 1 dimensions, those of x before its axis; got [2, 1]");
  EXPECT_EQ(refusal({.lengths = twinops::Tensor(n, {})}, {2, 4}),
            "softmax: lengths: expected 1 to 1 dimensions, those of x before its axis; got []");
  EXPECT_EQ(refusal({.axis = 0, .lengths = twinops::Tensor(n, {2})}, {2, 4}),
            "softmax: lengths: needs an axis of x before the one that rows lie along");
  EXPECT_EQ(
      refusal({.axis = 0, .causal = true}, {2, 4}),
      "softmax: causal: needs rows along the last axis and an axis before it; got axis 0 of a "
      "tensor of shape [2, 4]");
  EXPECT_EQ(
      refusal({.causal = true}, {4}),
      "softmax: causal: needs rows along the last axis and an axis before it; got axis 0 of a "
      "tensor of shape [4]");
  EXPECT_EQ(refusal({.causal_offset = 1}, {3, 4}),
            "softmax: causal_offset: is given without causal");
  EXPECT_EQ(refusal({.scale = 0x1p128}, {3, 4}),
            "softmax: scale: expected a number that is finite in the type that float32 is computed "
            "in; got 3.402823669209385e+38");
  EXPECT_EQ(refusal({.scale = std::nan("")}, {3, 4}, twinops::kFloat64),
            "softmax: scale: expected a number that is finite in the type that float64 is computed "
            "in; got nan");
  EXPECT_EQ(refusal({.scale = 0x1p128}, {3, 4}, twinops::kFloat64), "was not refused");
}

TEST(SoftmaxMaskRefusals, AMaskThatIsWrittenOver) {
  float x[12] = {}, y[12] = {};
  try {
    twinops::softmax({x, {3, 4}}, {y, {3, 4}}, {.mask = twinops::Tensor(y, {3, 4})});
    FAIL() << "was not refused";
  } catch (const twinops::Error& error) {
    EXPECT_STREQ(error.what(),
                 "softmax: out: shares memory with softmax: mask, but is not the same tensor in "
                 "place");
  }
  for (const float v : y) EXPECT_EQ(bits(v), 0u) << "something was written";
}

}  // namespace
