// The softmax family: every kernel row gives the bits of the reference, whatever the threads and
// the rows' neighbours; and the results are what softmax promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "numerics/float16.hpp"
#include "twinops/twinops.hpp"

namespace {

constexpr std::uint64_t kSeed = 20261121;

// ---- What softmax promises ---------------------------------------------------------------------

using Row = std::vector<float>;

Row random_row(std::size_t n, double spread, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, spread);
  Row row(n);
  for (float& x : row) x = static_cast<float>(normal(generator));
  return row;
}
template <class R>
twinops::Tensor tensor(R& row) {  // of constants: for an input
  return {row.data(), {static_cast<std::int64_t>(row.size())}};
}
Row run_row(const char* op, const Row& x, const char* masked_rows = "nan") {
  Row y(x.size());
  twinops::Call(op)
      .argument("x", tensor(x))
      .argument("out", tensor(y))
      .attribute("masked_rows", masked_rows)
      .run();
  return y;
}
double ulps(double actual, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(actual - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// The greater of two errors; a NaN, which a result that is no number makes, is the greatest.
double worse(double a, double b) { return b <= a || a != a ? a : b; }

TEST(SoftmaxValues, AreCloseToDouble) {
  double worst = 0, worst_log = 0;
  for (std::size_t n : {1u, 2u, 10u, 100u, 1000u, 1024u, 5000u, 50257u, 200000u}) {
    for (double spread : {0.1, 1.0, 10.0}) {
      const Row x = random_row(n, spread, static_cast<unsigned>(kSeed + n));
      const Row y = run_row("softmax", x), log_y = run_row("log_softmax", x);
      const double max = *std::max_element(x.begin(), x.end());
      double sum = 0;
      for (float v : x) sum += std::exp(v - max);
      for (std::size_t i = 0; i < n; ++i) {
        const double exact = std::exp(x[i] - max) / sum, exact_log = x[i] - max - std::log(sum);
        if (exact > 0x1p-120) worst = worse(worst, ulps(y[i], exact));
        // The sum's own rounding is an absolute error.
        worst_log =
            worse(worst_log, std::abs(log_y[i] - exact_log) / (std::abs(exact_log) + 1) * 0x1p23);
      }
    }
  }
  RecordProperty("softmax_ulps", std::to_string(worst));
  RecordProperty("log_softmax_ulps", std::to_string(worst_log));
  EXPECT_LT(worst, 4);
  EXPECT_LT(worst_log, 3);
  EXPECT_GT(worst, 0.4) << "the comparison compares nothing";
}

// In 16 bits results are rounded once, from what is good to some 2^-21 of them.
TEST(SoftmaxValues, HalvesAreRoundedFromWellNearTheRealValue) {
  double worst = 0;
  for (std::size_t n : {2u, 31u, 1000u, 5000u, 70001u})
    for (double spread : {0.1, 1.0, 4.0}) {
      const Row wide = random_row(n, spread, static_cast<unsigned>(kSeed + n));
      std::vector<twinops::float16> x(n), y(n), log_y(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = twinops::portable::narrow_float16(wide[i]);
      const auto halves = [n](std::vector<twinops::float16>& of) {
        return twinops::Tensor(of.data(), twinops::kFloat16, {static_cast<std::int64_t>(n)});
      };
      twinops::Call("softmax").argument("x", halves(x)).argument("out", halves(y)).run();
      twinops::Call("log_softmax").argument("x", halves(x)).argument("out", halves(log_y)).run();
      double max = -1e9, sum = 0;
      for (auto v : x) max = std::max(max, double{twinops::widen(v)});
      for (auto v : x) sum += std::exp(twinops::widen(v) - max);
      const auto off = [](twinops::float16 actual, double exact, double size) {
        int exponent = 0;
        std::frexp(size, &exponent);
        return std::abs(twinops::widen(actual) - exact) /
               std::ldexp(1.0, std::max(exponent - 11, -24));
      };
      for (std::size_t i = 0; i < n; ++i) {
        const double d = twinops::widen(x[i]) - max;
        const double p = std::exp(d) / sum, log_p = d - std::log(sum);
        // The sum's own rounding is an absolute error of the logarithm.
        worst = worse(worse(worst, off(y[i], p, p)), off(log_y[i], log_p, std::max(-log_p, 0.5)));
      }
    }
  RecordProperty("float16_ulps", std::to_string(worst));
  EXPECT_LT(worst, 0.502);
  EXPECT_GT(worst, 0.49) << "the comparison compares nothing";
}

TEST(SoftmaxValues, SumToOne) {
  for (std::size_t n : {2u, 33u, 1000u, 4097u, 100000u}) {
    const Row y = run_row("softmax", random_row(n, 3, static_cast<unsigned>(n)));
    double sum = 0;
    for (float v : y) sum += v;
    EXPECT_NEAR(sum, 1, 3 * 0x1p-23) << n;
  }
}

TEST(SoftmaxValues, AreMonotone) {
  Row x = random_row(3000, 5, 7);
  std::sort(x.begin(), x.end());
  for (const char* op : {"softmax", "log_softmax"}) {
    const Row y = run_row(op, x);
    for (std::size_t i = 1; i < y.size(); ++i) {
      // exp is good to an ulp, and a chunk's factor is rounded once.
      EXPECT_GE(y[i], y[i - 1] * (op[0] == 's' ? 1 - 0x1p-22f : 1)) << op << i;
    }
  }
}

TEST(SoftmaxValues, AShiftChangesLittle) {
  const Row x = random_row(5000, 3, 11);
  for (float shift : {64.0f, -1000.0f, 8192.0f}) {
    Row exact(x), moved(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      moved[i] = x[i] + shift;
      exact[i] = moved[i] - shift;  // what the sum kept of x
    }
    const Row a = run_row("softmax", exact), b = run_row("softmax", moved);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_LT(ulps(b[i], a[i]), 5) << shift << ' ' << i;
  }
}

TEST(SoftmaxValues, ALogProbabilityIsNeverPositive) {
  for (float gap : {0.0f, 1e-6f, 1.0f, 15.0f, 16.6f, 30.0f, 200.0f})
    for (float top : {0.0f, 0.1f, -3.7f, 88.0f, 12345.678f})
      for (std::size_t n : {1u, 2u, 1500u}) {
        Row x(n, top - gap);
        x[n / 2] = top;
        for (float y : run_row("log_softmax", x)) EXPECT_LE(y, 0.0f) << gap << ' ' << top;
      }
  EXPECT_EQ(run_row("log_softmax", {0.1f})[0], 0.0f);
}

TEST(SoftmaxValues, SpecialRows) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto bits = [](float x) {
    std::uint32_t u;
    std::memcpy(&u, &x, 4);
    return u;
  };
  const auto all = [&](const Row& row, std::uint32_t expected) {
    for (float y : row) EXPECT_EQ(bits(y), expected);
  };
  for (std::size_t n : {5u, 5000u}) {
    Row x(n, -inf);
    all(run_row("softmax", x), 0x7fffffff);
    all(run_row("log_softmax", x), 0x7fffffff);
    all(run_row("softmax", x, "zeros"), 0);
    all(run_row("log_softmax", x, "zeros"), 0xff800000);
    x[2] = 3;
    const Row one = run_row("softmax", x), log_one = run_row("log_softmax", x);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(one[i], i == 2 ? 1.0f : 0.0f);
      EXPECT_EQ(log_one[i], i == 2 ? 0.0f : -inf);
    }
    x[n - 1] = inf;
    all(run_row("softmax", x, "zeros"), 0x7fffffff);
    x[n - 1] = -std::numeric_limits<float>::quiet_NaN();
    all(run_row("softmax", x, "zeros"), 0x7fffffff);
    all(run_row("log_softmax", x, "zeros"), 0x7fffffff);
    // The largest numbers there are.
    std::fill(x.begin(), x.end(), std::numeric_limits<float>::max());
    all(run_row("softmax", x), bits(1.0f / static_cast<float>(n)));
    std::fill(x.begin(), x.end(), std::numeric_limits<float>::lowest());
    all(run_row("softmax", x), bits(1.0f / static_cast<float>(n)));
  }
}

// What a row gives does not depend on the rows around it.
TEST(SoftmaxValues, ARowIsTheSameInEveryBatch) {
  for (std::int64_t n : {63, 1000, 4096, 40000}) {
    const Row x = random_row(static_cast<std::size_t>(9 * n), 4, 3);
    Row batch(x.size()), alone(static_cast<std::size_t>(n));
    twinops::Call("softmax")
        .argument("x", twinops::Tensor(x.data(), {9, n}))
        .argument("out", twinops::Tensor(batch.data(), {9, n}))
        .run();
    for (std::int64_t r = 0; r < 9; ++r) {
      twinops::Call("softmax")
          .argument("x", twinops::Tensor(x.data() + r * n, {n}))
          .argument("out", twinops::Tensor(alone.data(), {n}))
          .run();
      EXPECT_EQ(0, std::memcmp(alone.data(), batch.data() + r * n,
                               static_cast<std::size_t>(n) * sizeof(float)));
    }
  }
}

// More axes than a call keeps by itself (operators/small_vector.hpp), in an order of their own.
TEST(Softmax, ATensorOfTwelveAxes) {
  const std::vector<std::int64_t> shape = {2, 1, 2, 1, 2, 1, 3, 1, 2, 1, 2, 3};
  std::vector<float> x(288), many(288), three(288);
  for (int i = 0; i < 288; ++i) x[i] = static_cast<float>(i * 37 % 101) / 16;
  twinops::softmax({x.data(), shape}, {many.data(), shape}, {.axis = 6});
  twinops::softmax({x.data(), {8, 3, 12}}, {three.data(), {8, 3, 12}}, {.axis = 1});
  EXPECT_EQ(many, three);
  // The same with the first and the last axis exchanged in memory.
  std::vector<std::int64_t> strides(12);
  std::int64_t step = 1;
  for (const int axis : {0, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11}) {
    strides[axis] = step;
    step *= shape[axis];
  }
  std::vector<float> turned(288), out(288);
  for (int i = 0; i < 288; ++i) turned[i / 144 + i % 144 / 3 * 2 + i % 3 * 96] = x[i];
  twinops::softmax({turned.data(), shape, twinops::kHost, strides}, {out.data(), shape},
                   {.axis = 6});
  EXPECT_EQ(out, many);
}

// The backward pass against differences of the forward pass, in double.
TEST(SoftmaxGradient, AgreesWithFiniteDifferences) {
  constexpr std::int64_t n = 1500;
  std::mt19937_64 generator(kSeed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n), dy(n), y(n), dx(n), up(n), down(n);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = normal(generator);
    dy[i] = normal(generator);
  }
  const auto t = [](std::vector<double>& v) { return twinops::Tensor(v.data(), {n}); };
  for (const std::string op : {"softmax", "log_softmax"}) {
    const auto forward = [&](std::vector<double>& out) {
      twinops::Call(op).argument("x", t(x)).argument("out", t(out)).run();
    };
    forward(y);
    twinops::Call(op + "_grad")
        .argument("y", t(y))
        .argument("dy", t(dy))
        .argument("dx", t(dx))
        .run();
    for (std::int64_t i : {0, 1, 700, 1023, 1024, 1499}) {
      constexpr double h = 1e-5;
      const double kept = x[i];
      x[i] = kept + h;
      forward(up);
      x[i] = kept - h;
      forward(down);
      x[i] = kept;
      double difference = 0;
      for (std::int64_t j = 0; j < n; ++j) difference += dy[j] * (up[j] - down[j]) / (2 * h);
      EXPECT_NEAR(dx[i], difference, 1e-8 * (op[0] == 's' ? 1 : 1e3)) << op << ' ' << i;
    }
  }
}

// ---- What is refused ---------------------------------------------------------------------------

std::string refusal(twinops::Call& call) {
  try {
    call.run();
  } catch (const twinops::Error& error) {
    EXPECT_EQ(error.status, TWINOPS_INVALID_ARGUMENT);
    return error.what();
  }
  return "was not refused";
}
std::string softmax_refusal(const twinops::Tensor& x, const twinops::Tensor& out, int axis = -1) {
  twinops::Call call("softmax");
  call.argument("x", x).argument("out", out).attribute("axis", axis);
  return refusal(call);
}

TEST(SoftmaxRefusals, EachHasItsMessage) {
  struct {
    float x[24], y[24];
    double d[24];
  } memory, before;
  std::memset(&memory, 0xca, sizeof(memory));
  std::memcpy(&before, &memory, sizeof(memory));
  auto& [x, y, d] = memory;
  const twinops::Tensor x34(x, {3, 4});
  EXPECT_EQ(softmax_refusal(x34, {y, {3, 4}}, 2), "softmax: axis: expected -2 to 1; got 2");
  EXPECT_EQ(softmax_refusal(x34, {y, {3, 4}}, -3), "softmax: axis: expected -2 to 1; got -3");
  EXPECT_EQ(softmax_refusal({x, {}}, {y, {}}),
            "softmax: axis: a tensor without dimensions has no axis");
  EXPECT_EQ(softmax_refusal(x34, {y, {4, 3}}),
            "softmax: out: expected the shape of x, [3, 4]; got [4, 3]");
  EXPECT_EQ(softmax_refusal(x34, {d, {3, 4}}),
            "softmax: out: expected the type of x, float32, or float16 or bfloat16; got float64");
  EXPECT_EQ(softmax_refusal({d, {3, 4}}, {y, {3, 4}}),
            "softmax: out: expected the type of x, float64; got float32");
  EXPECT_EQ(softmax_refusal({x, twinops::kFloat16, {3, 4}}, {y, twinops::kBfloat16, {3, 4}}),
            "softmax: out: expected the type of x, float16, or float32; got bfloat16");
  EXPECT_EQ(softmax_refusal(x34, {x + 1, {3, 4}}),
            "softmax: out: shares memory with softmax: x, but is not the same tensor in place");
  const twinops::Tensor dx(x + 12, {3, 4}), turned(y, {4, 3}), wide(d, {3, 4});
  twinops::Call call("softmax_grad");
  call.argument("y", x34).argument("dy", turned).argument("dx", dx);
  EXPECT_EQ(refusal(call), "softmax_grad: dy: expected the shape of y, [3, 4]; got [4, 3]");
  twinops::Call types("softmax_grad");
  types.argument("y", x34).argument("dy", wide).argument("dx", dx);
  EXPECT_EQ(refusal(types), "softmax_grad: dy: expected the type of y, float32; got float64");
  EXPECT_EQ(std::memcmp(&before, &memory, sizeof(memory)), 0) << "something was written";
}

}  // namespace
