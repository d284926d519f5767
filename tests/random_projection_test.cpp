// random_projection and its gradient on every row: which word decides which entry, that the matrix
// of the backward pass is the transposed one, the variance of entries, and the distances that a
// projection keeps (Johnson and Lindenstrauss). Refusals are at the end.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "numerics/projection.hpp"
#include "tests/support/dropout_row.hpp"
#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

class ProjectionRow : public DropoutRow {
 protected:
  // x [rows, columns] to [rows, k], or with `backward` from k to columns.
  Floats project(const Floats& x, std::int64_t from, std::int64_t to,
                 const ProjectionOptions& options, bool backward = false) const {
    const auto rows = from == 0 ? 3 : static_cast<std::int64_t>(x.size()) / from;
    Floats y(static_cast<std::size_t>(rows * to), -7.5f);
    const OnDevice x_at(GetParam(), x), y_at(GetParam(), y);
    const auto run = backward ? random_projection_grad : random_projection;
    const Report report =
        run(x_at.tensor({rows, from}), y_at.tensor({rows, to}), options, on_row());
    const auto entries = static_cast<std::uint64_t>(from * to);
    EXPECT_EQ(report.random_words,
              entries == 0
                  ? 0
                  : (static_cast<std::uint64_t>(options.element_offset) + entries + 3) / 4 * 4);
    y_at.read(y);
    return y;
  }
  // R as a matrix of -1, 0, 1, from the words that philox_words gives.
  Floats matrix(std::int64_t columns, std::int64_t k, const ProjectionOptions& o) const {
    const Words drawn = words({columns, k}, {.seed = o.seed,
                                             .subsequence = o.subsequence,
                                             .offset = o.offset,
                                             .element_offset = o.element_offset});
    const auto ones = static_cast<std::uint32_t>(2147483648.0 / static_cast<float>(o.s));
    Floats r(drawn.size());
    for (std::size_t i = 0; i < r.size(); ++i)
      r[i] = drawn[i] < ones ? 1.0f : drawn[i] < 2ull * ones ? -1.0f : 0.0f;
    return r;
  }
};
INSTANTIATE_TEST_SUITE_P(EveryRow, ProjectionRow, testing::ValuesIn(available_rows()), test_name);

Floats identity(std::int64_t n) {
  Floats x(static_cast<std::size_t>(n * n), 0);
  for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i * (n + 1))] = 1;
  return x;
}

TEST_P(ProjectionRow, EachEntryIsWhatItsWordSays) {
  constexpr std::int64_t kColumns = 130, kOutputs = 70;
  for (const ProjectionOptions& o :
       {ProjectionOptions{.s = 1, .seed = 5}, ProjectionOptions{.s = 3, .seed = 6},
        ProjectionOptions{
            .s = 16, .seed = 7, .subsequence = 9, .offset = 8, .element_offset = 5}}) {
    const Floats r = matrix(kColumns, kOutputs, o);
    const auto scale = static_cast<float>(std::sqrt(o.s / kOutputs));
    const Floats y = project(identity(kColumns), kColumns, kOutputs, o);
    const Floats back = project(identity(kOutputs), kOutputs, kColumns, o, true);
    for (std::int64_t i = 0; i < kColumns; ++i)
      for (std::int64_t j = 0; j < kOutputs; ++j) {
        const auto at = static_cast<std::size_t>(i * kOutputs + j);
        ASSERT_EQ(y[at], r[at] * scale) << "s " << o.s << " entry " << i << ", " << j;
        ASSERT_EQ(back[static_cast<std::size_t>(j * kColumns + i)], y[at])
            << "s " << o.s << " entry " << i << ", " << j << " backward";
      }
  }
}

TEST_P(ProjectionRow, AnEntryOfZeroHidesWhatItMeets) {
  constexpr std::int64_t kColumns = 40, kOutputs = 50;
  const ProjectionOptions o{.s = 2, .seed = 11};
  const Floats r = matrix(kColumns, kOutputs, o);
  Floats x(kColumns, 1.0f);
  x[17] = std::numeric_limits<float>::quiet_NaN();
  x[30] = -std::numeric_limits<float>::infinity();
  const Floats y = project(x, kColumns, kOutputs, o);
  for (std::size_t j = 0; j < kOutputs; ++j) {
    const float nan = r[17 * kOutputs + j], infinite = r[30 * kOutputs + j];
    EXPECT_EQ(std::isnan(y[j]), nan != 0) << j;
    EXPECT_EQ(std::isfinite(y[j]), nan == 0 && infinite == 0) << j;
    if (nan == 0 && infinite != 0) {
      EXPECT_EQ(std::signbit(y[j]), infinite > 0) << j;
    }
  }
}

TEST_P(ProjectionRow, ASumOfNothingIsZero) {
  for (const bool backward : {false, true}) {
    for (const float v : project({}, 0, 5, {}, backward)) EXPECT_EQ(to_bits(v), 0u);
    EXPECT_TRUE(project(Floats(6, 1.0f), 2, 0, {}, backward).empty());
  }
  // x - x, and sums of -0 alone, leave as +0.
  for (const float v : project(Floats(64, -0.0f), 64, 8, {.s = 1})) EXPECT_EQ(to_bits(v), 0u);
}

// 2^18 entries: their counts and the sum of neighbours' products within five standard deviations.
TEST_P(ProjectionRow, EntriesHaveTheVarianceThatIsAskedFor) {
  for (const double s : {1.0, 3.0, 22.5}) {
    const ProjectionOptions o{.s = s, .seed = 20261121};
    const Floats y = project(identity(512), 512, 512, o);
    double plus = 0, minus = 0, neighbours = 0, square = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      plus += y[i] > 0;
      minus += y[i] < 0;
      square += static_cast<double>(y[i]) * static_cast<double>(y[i]);
      if (i > 0)
        neighbours += (y[i] > 0   ? 1
                       : y[i] < 0 ? -1
                                  : 0) *
                      (y[i - 1] > 0   ? 1
                       : y[i - 1] < 0 ? -1
                                      : 0);
    }
    const double n = static_cast<double>(y.size()), p = 1 / (2 * s);
    const double deviation = std::sqrt(n * p * (1 - p));
    EXPECT_NEAR(plus, n * p, 5 * deviation) << "s " << s;
    EXPECT_NEAR(minus, n * p, 5 * deviation) << "s " << s;
    EXPECT_NEAR(neighbours, 0, 5 * std::sqrt(n) / s) << "s " << s;
    // Scaled, each has variance 1 / k.
    EXPECT_NEAR(square / n * 512, 1, 5 * std::sqrt(s / n)) << "s " << s;
  }
}

// Johnson and Lindenstrauss, with Achlioptas' constants: for n points, k of at least
// (4 + 2 b) ln n / (e^2 / 2 - e^3 / 3) dimensions keep all squared distances within 1 +- e with
// probability 1 - n^-b. n = 40, e = 0.4, b = 1: k = 379.
TEST_P(ProjectionRow, KeepsDistances) {
  constexpr std::int64_t kPoints = 40, kColumns = 1500, kOutputs = 379;
  constexpr double kError = 0.4;
  static_assert((4 + 2) * 3.689 / (kError * kError / 2 - kError * kError * kError / 3) <
                kOutputs + 1);
  constexpr unsigned kSeed = 20261121;
  std::mt19937 random(kSeed);
  Floats x(kPoints * kColumns);
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  for (const double s : {1.0, 3.0}) {
    const Floats y = project(x, kColumns, kOutputs, {.s = s, .seed = kSeed});
    const auto distance = [](const Floats& v, std::int64_t width, std::int64_t a, std::int64_t b) {
      double sum = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double d =
            v[static_cast<std::size_t>(a * width + i)] - v[static_cast<std::size_t>(b * width + i)];
        sum += d * d;
      }
      return sum;
    };
    for (std::int64_t a = 0; a < kPoints; ++a)
      for (std::int64_t b = 0; b < a; ++b)
        ASSERT_NEAR(distance(y, kOutputs, a, b) / distance(x, kColumns, a, b), 1, kError)
            << "s " << s << " points " << a << ", " << b << " seed " << kSeed;
  }
}

static_assert(is_plus_one(0, 1) && !is_plus_one(1, 1) && is_minus_one(1, 1) && !is_minus_one(2, 1));
static_assert(is_plus_one(0x7fffffffu, 1u << 31) && is_minus_one(0x80000000u, 1u << 31));
static_assert(is_minus_one(~0u, 1u << 31) && !is_minus_one(0, 1u << 31));

// What is refused, on a right call of [2, 6] to [2, 4].
struct Example {
  float x[12];
  std::int64_t seed = 1, offset[2] = {4, 8};
  float y[12];
  View x_view{x, kF32, {2, 6}}, y_view{y, kF32, {2, 4}}, seed_view{&seed, kI64, {1}},
      offset_view{offset, kI64, {2}};
  RawCall call{"random_projection"};
  Example() {
    for (float& v : x) v = 1;
    std::memset(y, 0xca, sizeof(y));
    call.add("x", x_view);
    call.add("y", y_view);
  }
};

struct Refused {
  const char* name;
  std::function<void(Example&)> spoil;
  std::string message;
};

const std::vector<Refused>& refusals() {
  static const std::string kOp = "random_projection: ";
  static const std::vector<Refused> all = {
      {"SparsityBelow", [](Example& e) { e.call.set("s", 0.999); },
       kOp + "s: expected 1 to 2^31; got 0.999"},
      {"SparsityAbove", [](Example& e) { e.call.set("s", 2147483649.0); },
       kOp + "s: expected 1 to 2^31; got 2147483649"},
      {"SparsityNan", [](Example& e) { e.call.set("s", std::numeric_limits<double>::quiet_NaN()); },
       kOp + "s: expected 1 to 2^31; got nan"},
      {"OffsetOdd", [](Example& e) { e.call.set("offset", 2); },
       kOp + "offset: expected a multiple of 4; got 2"},
      {"ElementOffset", [](Example& e) { e.call.set("element_offset", -4); },
       kOp + "element_offset: expected 0 or more; got -4"},
      {"ElementOffsetTooFar",
       [](Example& e) {
         e.call.set("element_offset", std::numeric_limits<std::int64_t>::max() - 23);
       },
       kOp + "element_offset: the whole matrix's indexes do not fit 63 bits"},
      {"TwoSeeds",
       [](Example& e) {
         e.call.add("seed_tensor", e.seed_view);
         e.call.set("seed", 3);
       },
       kOp + "seed_tensor: the attribute seed is given too"},
      {"TwoOffsets", [](Example& e) { e.call.add("offset_tensor", e.offset_view); },
       kOp + "offset_tensor: expected one element; got shape [2]"},
      {"Scalar", [](Example& e) { e.x_view.reshape({}); },
       kOp + "x: expected a dimension or more; got a scalar"},
      {"Rank", [](Example& e) { e.y_view.reshape({8}); },
       kOp + "y: expected the shape of x, [2, 6], but for the last dimension; got [8]"},
      {"Rows",
       [](Example& e) {
         e.y_view.reshape({3, 4});
       },
       kOp + "y: expected the shape of x, [2, 6], but for the last dimension; got [3, 4]"},
      {"Type", [](Example& e) { e.y_view.tensor.dtype = kF16; },
       kOp + "y: expected the type of x, float32; got float16"},
      {"InPlace",
       [](Example& e) {
         e.y_view.tensor.data = e.x, e.y_view.reshape({2, 6});
       },
       kOp + "y: shares memory with " + kOp + "x, but is not the same tensor in place"},
  };
  return all;
}

class ProjectionRefusal : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, ProjectionRefusal, testing::Range(std::size_t{0}, refusals().size()),
                         [](const auto& info) { return std::string(refusals()[info.param].name); });

TEST_P(ProjectionRefusal, HasItsMessageAndWritesNothing) {
  Example e;
  float before[12];
  std::memcpy(before, e.y, sizeof(before));
  refusals()[GetParam()].spoil(e);
  EXPECT_EQ(e.call.run(), TWINOPS_INVALID_ARGUMENT);
  EXPECT_EQ(twinops_last_error(), refusals()[GetParam()].message);
  EXPECT_EQ(std::memcmp(before, e.y, sizeof(before)), 0);
}

TEST(ProjectionRefusal, TheExampleIsRight) {
  Example e;
  EXPECT_EQ(e.call.run(), TWINOPS_OK) << twinops_last_error();
}

}  // namespace
}  // namespace twinops::test
