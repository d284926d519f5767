// Chunks of a softmax row join pair by pair; kernels may take every sum under the row's own power
// of two at once and add those as a tree of neighbours, or do so with 16 to 64 at a time and then
// with what those make. docs/softmax.md says why the bits are the same; here all are carried out.
// And the two forms of a weight.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "numerics/float16.hpp"
#include "numerics/softmax.hpp"

namespace twinops {
namespace {

template <class F>
using Part = SoftmaxPart<F>;

template <class F>
Part<F> joined_by_pairs(const std::vector<Part<F>>& parts, std::size_t first, std::size_t n) {
  if (n == 1) return first < parts.size() ? parts[first] : Part<F>{};
  return joined_by_pairs(parts, first, n / 2) + joined_by_pairs(parts, first + n / 2, n / 2);
}

template <class F>
F tree(const std::vector<F>& s, std::size_t first, std::size_t n) {
  if (n == 1) return first < s.size() ? s[first] : F(0);
  return tree(s, first, n / 2) + tree(s, first + n / 2, n / 2);
}

template <class F>
Part<F> joined_at_once(const std::vector<Part<F>>& parts, std::size_t n) {
  Part<F> all;
  for (const Part<F>& p : parts) all.max = greatest(all.max, p.max);
  std::vector<F> sums;
  for (const Part<F>& p : parts) sums.push_back(p.sum_under(all.n()));
  all.sum = tree(sums, 0, n);
  return all;
}

template <class F>
Part<F> joined_by_groups(const std::vector<Part<F>>& parts, std::size_t n, std::size_t of_group) {
  std::vector<Part<F>> groups;
  for (std::size_t i = 0; i < parts.size(); i += of_group) {
    const auto end =
        parts.begin() + static_cast<std::ptrdiff_t>(std::min(i + of_group, parts.size()));
    groups.push_back(
        joined_at_once<F>({parts.begin() + static_cast<std::ptrdiff_t>(i), end}, of_group));
  }
  return joined_at_once(groups, (n + of_group - 1) / of_group);
}

// A chunk whose maximum lies up to `spread` below 0; its sum is what 1 to 1024 weights can add up
// to, often one whose last bits decide a tie.
template <class F>
Part<F> random_part(std::mt19937_64& random, double spread) {
  std::uniform_real_distribution<double> unit(0, 1);
  if (unit(random) < 0.05) return {};  // nothing but -infinity
  const F max = static_cast<F>(-spread * unit(random));
  const F mantissa = exp_parts(max).mantissa * power_of_two<F>(kLift<F>);
  if (unit(random) < 0.3) return {max, mantissa};
  return {max, mantissa + static_cast<F>(1023 * unit(random)) * power_of_two<F>(kLift<F>)};
}

template <class F>
class SoftmaxParts : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxParts, Floats);

TYPED_TEST(SoftmaxParts, JoinTheSameByPairsAndAtOnce) {
  using F = TypeParam;
  constexpr unsigned kSeed = 20261121;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  const double reach = sizeof(F) == 4 ? 88 : 709;  // of a weight: where 2^d becomes +0
  for (double spread : {0.0, 1.0, 20.0, 0.5 * reach, reach, 1.01 * reach, 2.5 * reach, 1e5})
    for (std::size_t count : {1, 2, 3, 5, 8, 31, 64, 333, 512}) {
      std::size_t n = 1;
      while (n < count) n *= 2;
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<Part<F>> parts(count);
        for (Part<F>& p : parts) p = random_part<F>(random, spread);
        const Part<F> pairs = joined_by_pairs(parts, 0, n), once = joined_at_once(parts, n);
        ASSERT_EQ(to_bits(pairs.max), to_bits(once.max)) << spread << " " << count;
        ASSERT_EQ(to_bits(pairs.sum), to_bits(once.sum)) << spread << " " << count;
        for (std::size_t of_group : {16, 32, 64}) {
          const Part<F> groups = joined_by_groups(parts, n, of_group);
          ASSERT_EQ(to_bits(pairs.max), to_bits(groups.max)) << spread << " " << count;
          ASSERT_EQ(to_bits(pairs.sum), to_bits(groups.sum)) << spread << " " << count;
        }
      }
    }
}

template <class In>
class SoftmaxWeights : public testing::Test {};
using Inputs = testing::Types<float16, float, double>;
TYPED_TEST_SUITE(SoftmaxWeights, Inputs);

// Every weight that counts as normal has the same bits in both forms, and those that do not are the
// ones that may not.
TYPED_TEST(SoftmaxWeights, NormalWeightsAreTheSameWithoutAMultiplication) {
  using F = compute_t<TypeParam>;
  constexpr unsigned kSeed = 20261121;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> unit(0, 1);
  const double reach = sizeof(F) == 4 ? 104 : 745;
  int normal = 0, others = 0;
  for (double top : {0.0, 0.25, -0.3466, 1.0, -3.0, 88.7, -103.9, 700.5, 65504.0, -65504.0,
                     2097151.5, -2097152.0})
    for (int i = 0; i < 20000; ++i) {
      const F max = static_cast<F>(top), magic = weight_magic(max);
      const F x = std::min(max, static_cast<F>(top - 1.02 * reach * unit(random)));
      const F expected = weight<TypeParam>(x, weight_scale(max));
      if (weight_is_normal(x, magic)) {
        ++normal;
        ASSERT_EQ(to_bits(expected), to_bits(normal_weight<TypeParam>(x, magic)))
            << top << " " << x;
      } else {
        ++others;
        ASSERT_LT(expected, 8 * std::numeric_limits<F>::min()) << top << " " << x;
      }
    }
  EXPECT_GT(normal, 200000);
  EXPECT_GT(others, 200);
  const F zero = weight_magic(F(0));
  EXPECT_FALSE(weight_is_normal(-kInfinity<F>, zero));
  EXPECT_FALSE(weight_is_normal(std::numeric_limits<F>::quiet_NaN(), zero));
  EXPECT_FALSE(weight_is_normal(F(0), weight_magic(std::numeric_limits<F>::quiet_NaN())));
}

}  // namespace
}  // namespace twinops
