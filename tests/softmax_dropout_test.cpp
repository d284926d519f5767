// softmax_dropout and its backward pass: the bits of softmax and dropout one after the other, of
// whatever cut of a tensor, with the mask stored or drawn again; and what is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/support/on_device.hpp"
#include "twinops/twinops.hpp"

namespace {

constexpr unsigned kSeed = 20261121;

struct Problem {
  std::int64_t rows, columns;
  std::vector<float> x, dy;
  Problem(std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_) {
    std::mt19937 generator(kSeed);
    std::normal_distribution<float> normal(0, 3);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      x.push_back(normal(generator));
      dy.push_back(normal(generator));
    }
  }
  std::int64_t size() const { return rows * columns; }
  std::vector<float> room() const { return std::vector<float>(x.size(), -9); }
  twinops::Tensor view(std::vector<float>& v) const { return {v.data(), {rows, columns}}; }
  twinops::Tensor bits(std::vector<std::uint32_t>& v) const {
    return {v.data(), {static_cast<std::int64_t>(v.size())}};
  }
};

twinops::DropoutOptions dropout_options(double p = 0.3) {
  return {.p = p, .random = {.seed = 77, .offset = 12}};
}
template <class T>
testing::AssertionResult same(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
      return testing::AssertionFailure()
             << "element " << i << ": " << a[i] << " and " << b[i] << ", seed " << kSeed;
  return testing::AssertionSuccess();
}

class SoftmaxDropout : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Columns, SoftmaxDropout, testing::Values(1, 3, 32, 50, 513, 1024, 5001));

TEST_P(SoftmaxDropout, IsSoftmaxThenDropout) {
  Problem t(9, GetParam());
  const twinops::SoftmaxOptions softmax{.scale = 0.5, .causal = true, .causal_offset = 400};
  auto p = t.room(), y = t.room(), fused_p = t.room(), fused_y = t.room(), seeded = t.room();
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(t.size() + 31) / 32, 5),
      fused_mask(mask);
  twinops::softmax(t.view(t.x), t.view(p), softmax);
  const auto report = twinops::dropout(t.view(p), t.view(y), t.bits(mask), dropout_options());
  const auto fused =
      twinops::softmax_dropout(t.view(t.x), t.view(fused_y), {t.view(fused_p), t.bits(fused_mask)},
                               softmax, dropout_options());
  EXPECT_TRUE(same(p, fused_p));
  EXPECT_TRUE(same(y, fused_y));
  EXPECT_TRUE(same(mask, fused_mask));
  EXPECT_EQ(report.random_words, fused.random_words);
  twinops::softmax_dropout(t.view(t.x), t.view(seeded), {}, softmax, dropout_options());
  EXPECT_TRUE(same(y, seeded));
  twinops::softmax_dropout(t.view(t.x), t.view(t.x), {}, softmax, dropout_options());
  EXPECT_TRUE(same(y, t.x)) << "in place";
}

TEST_P(SoftmaxDropout, GradientIsDropoutsThenSoftmaxs) {
  Problem t(9, GetParam());
  auto p = t.room(), y = t.room(), between = t.room(), dx = t.room(), fused = t.room(),
       seeded = t.room();
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(t.size() + 31) / 32);
  twinops::softmax_dropout(t.view(t.x), t.view(y), {t.view(p), t.bits(mask)}, {},
                           dropout_options());
  twinops::dropout_grad(t.view(t.dy), t.view(between), t.bits(mask), dropout_options());
  twinops::softmax_grad(t.view(p), t.view(between), t.view(dx), {.scale = 0.25});
  twinops::softmax_dropout_grad(t.view(p), t.view(t.dy), t.view(fused), t.bits(mask),
                                {.scale = 0.25}, dropout_options());
  EXPECT_TRUE(same(dx, fused));
  twinops::softmax_dropout_grad(t.view(p), t.view(t.dy), t.view(seeded), {}, {.scale = 0.25},
                                dropout_options());
  EXPECT_TRUE(same(dx, seeded));
  twinops::softmax_dropout_grad(t.view(p), t.view(t.dy), t.view(t.dy), {}, {.scale = 0.25},
                                dropout_options());
  EXPECT_TRUE(same(dx, t.dy)) << "in place";
}

// A tensor that is cut draws the whole one's mask, wherever its rows lie.
TEST_P(SoftmaxDropout, ShardsDrawTheWholeMask) {
  Problem t(10, GetParam());
  auto whole = t.room(), parts = t.room();
  twinops::softmax_dropout(t.view(t.x), t.view(whole), {}, {}, dropout_options());
  for (std::int64_t begin = 0; begin < 10; begin += 5) {
    twinops::DropoutOptions options = dropout_options();
    options.random.global_shape = {10, t.columns};
    options.random.start = {begin, 0};
    const auto view = [&](std::vector<float>& v) {
      return twinops::Tensor(v.data() + begin * t.columns, {5, t.columns});
    };
    twinops::softmax_dropout(view(t.x), view(parts), {}, {}, options);
  }
  EXPECT_TRUE(same(whole, parts));
}

TEST(SoftmaxDropoutValues, ADroppedNanIsGone) {
  std::vector<float> x(64, -std::numeric_limits<float>::infinity()), y(64);
  twinops::softmax_dropout({x.data(), {64}}, {y.data(), {64}}, {}, {}, dropout_options(0.5));
  std::size_t nan = 0, zero = 0;
  for (float v : y) (v != v ? nan : zero) += 1;
  EXPECT_GT(nan, 8u);
  EXPECT_GT(zero, 8u);
}

// On a GPU rows that hold whole bytes of mask take one launch; the bits are the cross-check's
// matter.
class SoftmaxDropoutLaunches : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = nullptr;
    const DLDevice device{kDLCUDA, 0};
    if (twinops_allocate(device, 64, &memory) != TWINOPS_OK) GTEST_SKIP() << "needs a GPU";
    twinops_release(device, memory);
  }
  // Of a call over six rows.
  template <class Call>
  static std::int64_t launches_of(std::int64_t columns, Call&& call) {
    const std::vector<float> zeros(static_cast<std::size_t>(6 * columns));
    const twinops::test::OnDevice x("cuda", zeros), dy("cuda", zeros);
    return call(x.tensor({6, columns}), dy.tensor({6, columns})).launches;
  }
};
TEST_F(SoftmaxDropoutLaunches, OneWhereRowsAreWholeBytesOfMask) {
  const auto forward = [](const twinops::Tensor& x, const twinops::Tensor&) {
    return twinops::softmax_dropout(x, x, {}, {}, dropout_options());
  };
  for (const std::int64_t columns : {8, 64, 1000, 1032, 16384})
    EXPECT_EQ(launches_of(columns, forward), 1) << columns;
  for (const std::int64_t columns : {7, 100, 16392})
    EXPECT_EQ(launches_of(columns, forward), 2) << columns;
}
TEST_F(SoftmaxDropoutLaunches, OneForTheGradientOfRowsOfAChunk) {
  const auto backward = [](const twinops::Tensor& p, const twinops::Tensor& dy) {
    return twinops::softmax_dropout_grad(p, dy, dy, {}, {}, dropout_options());
  };
  for (const std::int64_t columns : {64, 100, 128, 520, 1000, 1024})
    EXPECT_EQ(launches_of(columns, backward), 1) << columns;
  for (const std::int64_t columns : {60, 102, 1028})
    EXPECT_EQ(launches_of(columns, backward), 2) << columns;
}

// ---- What is refused ---------------------------------------------------------------------------

template <class F>
std::string refusal(F&& call) {
  try {
    call();
  } catch (const twinops::Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    return error.what();
  }
  return "was not refused";
}

TEST(SoftmaxDropoutRefusals, EachHasItsMessage) {
  float x[12] = {}, y[12] = {}, p[12] = {};
  double d[12] = {};
  std::uint32_t mask[4] = {};
  const twinops::Tensor x34(x, {3, 4}), y34(y, {3, 4}), p34(p, {3, 4});
  const auto forward = [&](const twinops::KeptForGradient& kept, double probability = 0.5) {
    return refusal([&] { twinops::softmax_dropout(x34, y34, kept, {}, {.p = probability}); });
  };
  EXPECT_EQ(forward({twinops::Tensor(d, {3, 4})}),
            "softmax_dropout: probabilities: expected the type of y, float32; got float64");
  EXPECT_EQ(forward({twinops::Tensor(p, {4, 3})}),
            "softmax_dropout: probabilities: expected the shape of y, [3, 4]; got [4, 3]");
  EXPECT_EQ(forward({p34, twinops::Tensor(mask, {2})}),
            "softmax_dropout: dropout_mask: expected uint32[1], a bit for each element of "
            "probabilities; got uint32[2]");
  EXPECT_EQ(forward({p34}, 1.5), "softmax_dropout: p: expected a probability in [0, 1]; got 1.5");
  EXPECT_EQ(forward({y34}),
            "softmax_dropout: probabilities: shares memory with softmax_dropout: y");
  EXPECT_EQ(forward({x34}),
            "softmax_dropout: probabilities: shares memory with softmax_dropout: x, but is not the "
            "same tensor in place");
  EXPECT_EQ(refusal([&] {
              twinops::softmax_dropout(x34, {y, {4, 3}});
            }),
            "softmax_dropout: y: expected the shape of x, [3, 4]; got [4, 3]");
  EXPECT_EQ(refusal([&] {
              twinops::softmax_dropout(x34, {d, {3, 4}});
            }),
            "softmax_dropout: y: expected the type of x, float32, or float16 or bfloat16; got "
            "float64");
  for (float v : y) EXPECT_EQ(v, 0) << "something was written";

  const auto backward = [&](const twinops::Tensor& dy, const twinops::Tensor& dx) {
    return refusal([&] { twinops::softmax_dropout_grad(p34, dy, dx); });
  };
  EXPECT_EQ(backward({d, {3, 4}}, y34),
            "softmax_dropout_grad: dy: expected the type of probabilities, float32; got float64");
  EXPECT_EQ(backward({x, {4, 3}}, y34),
            "softmax_dropout_grad: dy: expected the shape of probabilities, [3, 4]; got [4, 3]");
  EXPECT_EQ(backward(x34, {y, {4, 3}}),
            "softmax_dropout_grad: dx: expected the shape of probabilities, [3, 4]; got [4, 3]");
  EXPECT_EQ(backward(x34, p34),
            "softmax_dropout_grad: dx: shares memory with softmax_dropout_grad: probabilities, but "
            "is not the same tensor in place");
  for (float v : y) EXPECT_EQ(v, 0) << "something was written";
}

}  // namespace
