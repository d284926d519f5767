// What people assert of a softmax with ==: the only class has probability 1, two equal ones have a
// half each, a certain outcome is certain, and its gradient is 0. And no probability that its type
// can say is lost. On every row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "numerics/float16.hpp"
#include "twinops/twinops.hpp"

namespace {

using twinops::bfloat16;
using twinops::float16;

template <class T>
twinops::Tensor matrix(std::vector<T>& of, std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(of.size()) / columns;
  return {of.data(), {rows, columns}};
}
template <>
twinops::Tensor matrix(std::vector<float16>& of, std::int64_t columns) {
  return {of.data(), twinops::kFloat16, {static_cast<std::int64_t>(of.size()) / columns, columns}};
}
template <>
twinops::Tensor matrix(std::vector<bfloat16>& of, std::int64_t columns) {
  return {of.data(), twinops::kBfloat16, {static_cast<std::int64_t>(of.size()) / columns, columns}};
}
std::vector<std::string> rows() {
  std::vector<std::string> cpu;
  for (const std::string& row : twinops::available_rows())
    if (row.starts_with("cpu")) cpu.push_back(row);
  return cpu;
}
twinops::Execution on(const std::string& row) {
  twinops::Execution execution;
  execution.row = row;
  return execution;
}

// Softmax of rows, or, `across`, of the columns, which are then as many.
template <class Out, class In>
std::vector<Out> softmax(std::vector<In> x, std::int64_t columns, const std::string& row,
                         bool across = false) {
  std::vector<Out> y(x.size());
  twinops::Call("softmax")
      .argument("x", matrix(x, columns))
      .argument("out", matrix(y, columns))
      .attribute("axis", across ? 0 : 1)
      .run(on(row));
  return y;
}
constexpr unsigned kSeed = 20261128;
template <class T>
std::vector<T> numbers(std::size_t count, double spread) {
  std::mt19937 random(kSeed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<T> of(count);
  for (T& x : of) x = static_cast<T>(normal(random));
  return of;
}

template <class T>
class SoftmaxIdentities : public testing::Test {
  const testing::ScopedTrace seed_{__FILE__, __LINE__, "seed " + std::to_string(kSeed)};
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxIdentities, Floats);

TYPED_TEST(SoftmaxIdentities, OneClassIsCertainAndItsGradientIsZero) {
  using T = TypeParam;
  for (const std::string& row : rows()) {
    std::vector<T> x = numbers<T>(20000, 30), dy = numbers<T>(20000, 1), dx(x.size());
    x[0] = T(2.4648545);
    std::vector<T> y = softmax<T>(x, 1, row);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], T(1)) << row << " " << x[i];
    twinops::Call("softmax_grad")
        .argument("y", matrix(y, 1))
        .argument("dy", matrix(dy, 1))
        .argument("dx", matrix(dx, 1))
        .run(on(row));
    for (T d : dx) ASSERT_EQ(d, T(0)) << row;
  }
}

// Of n equal elements each has the nearest number to 1 / n: in short rows, in several chunks, along
// either axis.
TYPED_TEST(SoftmaxIdentities, EqualElementsHaveEqualShares) {
  using T = TypeParam;
  for (const std::string& row : rows())
    for (std::int64_t n : {2, 3, 8, 64, 1000, 1024, 4096}) {
      const auto of_rows = numbers<T>(n < 100 ? 400 : 20, 5);
      const auto count = static_cast<std::int64_t>(of_rows.size());
      std::vector<T> x, across(of_rows.size() * static_cast<std::size_t>(n));
      for (T a : of_rows) x.insert(x.end(), static_cast<std::size_t>(n), a);
      for (std::size_t i = 0; i < across.size(); ++i)
        across[i] = of_rows[i % static_cast<std::size_t>(count)];
      // A sum of n equal weights is exact if n is a power of two.
      const bool exact = (n & (n - 1)) == 0;
      const T share = T(1) / static_cast<T>(n), ulp = std::nextafter(share, T(1)) - share;
      for (T y : softmax<T>(x, n, row)) ASSERT_LE(std::abs(y - share), exact ? T(0) : ulp) << row;
      for (T y : softmax<T>(across, count, row, true))
        ASSERT_LE(std::abs(y - share), exact ? T(0) : ulp) << row;
    }
}

TYPED_TEST(SoftmaxIdentities, ACertainOutcomeIsOne) {
  using T = TypeParam;
  for (const std::string& row : rows())
    for (std::int64_t n : {3, 17, 200, 3000}) {
      std::vector<T> x = numbers<T>(static_cast<std::size_t>(n) * 50, 3);
      const auto top = numbers<T>(50, 40);
      for (std::size_t r = 0; r < 50; ++r)
        x[r * static_cast<std::size_t>(n) + r % static_cast<std::size_t>(n)] =
            200 + std::abs(top[r]);
      const auto y = softmax<T>(x, n, row);
      for (std::size_t r = 0; r < 50; ++r)
        ASSERT_EQ(y[r * static_cast<std::size_t>(n) + r % static_cast<std::size_t>(n)], T(1))
            << row;
    }
}

TYPED_TEST(SoftmaxIdentities, TheFirstRowOfACausalSoftmax) {
  using T = TypeParam;
  constexpr std::int64_t n = 96;
  for (const std::string& row : rows())
    for (int more = 0; more < 20; ++more) {
      std::vector<T> x = numbers<T>(n * n, 1 + more), y(x.size()), mask_y(x.size());
      twinops::Call("softmax")
          .argument("x", matrix(x, n))
          .argument("out", matrix(y, n))
          .attribute("causal", true)
          .run(on(row));
      ASSERT_EQ(y[0], T(1)) << row;
      for (std::size_t j = 1; j < n; ++j) ASSERT_EQ(y[j], T(0)) << row;
    }
}

// softmax_dropout rounds the same probability.
TYPED_TEST(SoftmaxIdentities, WithDropout) {
  using T = TypeParam;
  for (const std::string& row : rows()) {
    std::vector<T> x = numbers<T>(5000, 30), y(x.size());
    twinops::Call("softmax_dropout")
        .argument("x", matrix(x, 1))
        .argument("y", matrix(y, 1))
        .attribute("p", 0.0)
        .run(on(row));
    for (T value : y) ASSERT_EQ(value, T(1)) << row;
  }
}

// softmax([0, -d]) down to the least subnormal number: within half of one, or a few last places.
TYPED_TEST(SoftmaxIdentities, ProbabilitiesUnderflowGradually) {
  using T = TypeParam;
  const double reach = sizeof(T) == 4 ? 104.5 : 746;
  for (const std::string& row : rows()) {
    std::vector<T> x;
    for (int i = 0; i < 4000; ++i) {
      x.push_back(T(0));
      x.push_back(static_cast<T>(-reach + i * (sizeof(T) == 4 ? 0.01 : 0.02)));
    }
    const auto y = softmax<T>(x, 2, row);
    for (std::size_t i = 0; i < x.size(); i += 2) {
      const long double exact = std::exp(static_cast<long double>(x[i + 1]));
      const T near = static_cast<T>(exact);
      const T ulp = std::nextafter(near, T(1)) - near;
      ASSERT_LE(std::abs(static_cast<long double>(y[i + 1]) - exact), 1.6L * ulp)
          << row << " " << x[i + 1];
    }
  }
  EXPECT_GT(softmax<T>(std::vector<T>{0, sizeof(T) == 4 ? T(-88) : T(-709)}, 2, "cpu/scalar")[1],
            0);
}

// The same where another chunk of a long row holds the maximum, near and far.
TYPED_TEST(SoftmaxIdentities, ProbabilitiesUnderflowGraduallyAcrossChunks) {
  using T = TypeParam;
  constexpr std::int64_t n = 3 * 1024;
  const double reach = sizeof(T) == 4 ? 105 : 747;
  for (const std::string& row : rows())
    for (const bool across : {false, true})
      for (int i = 0; i <= 40; ++i) {
        const double down = reach * i / 40;
        std::vector<T> x(n);
        for (std::size_t j = 0; j < n; ++j)
          x[j] = j < 1024 ? T(0)
                          : static_cast<T>(-down - (j < 2048 ? 0.001 : 0.007) * double(j % 1024));
        long double sum = 0;
        for (T v : x) sum += std::exp(static_cast<long double>(v));
        const auto y = softmax<T>(x, across ? 1 : n, row, across);
        for (std::size_t j = 0; j < n; ++j) {
          const long double exact = std::exp(static_cast<long double>(x[j])) / sum;
          const T near = static_cast<T>(exact);
          const T ulp = std::nextafter(near, T(1)) - near;
          ASSERT_LE(std::abs(static_cast<long double>(y[j]) - exact),
                    4 * static_cast<long double>(ulp))
              << row << " " << x[j] << " in a row that falls by " << down;
        }
      }
}

// 16 bits are multiplied with the inverse of the sum, which their types cannot tell from a division
// in these: every number there is.
template <class T>
class SoftmaxIdentitiesIn16Bits : public testing::Test {};
using Halves = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(SoftmaxIdentitiesIn16Bits, Halves);

TYPED_TEST(SoftmaxIdentitiesIn16Bits, OfEveryNumber) {
  using T = TypeParam;
  std::vector<T> all;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const T x{static_cast<std::uint16_t>(bits)};
    if (std::isfinite(twinops::widen(x))) all.push_back(x);
  }
  ASSERT_GT(all.size(), 60000u);
  for (const std::string& row : rows()) {
    for (std::int64_t n : {1, 2, 4, 16}) {
      std::vector<T> x;
      for (T a : all) x.insert(x.end(), static_cast<std::size_t>(n), a);
      for (T y : softmax<T>(x, n, row))
        ASSERT_EQ(twinops::widen(y), 1.0f / static_cast<float>(n)) << row;
      for (float y : softmax<float>(x, n, row))  // read in 16 bits, written in 32
        ASSERT_EQ(y, 1.0f / static_cast<float>(n)) << row;
    }
    // A certain outcome: beside an element that lies 40 or more below.
    std::vector<T> x;
    for (T a : all) {
      const T low = twinops::narrow<T>(twinops::widen(a) - 40);
      if (twinops::widen(a) - twinops::widen(low) < 30) continue;
      x.insert(x.end(), {low, a, low});
    }
    const auto y = softmax<T>(x, 3, row);
    for (std::size_t i = 1; i < y.size(); i += 3) ASSERT_EQ(twinops::widen(y[i]), 1.0f) << row;
  }
}

}  // namespace
