// The folded sum: against a recursion that says the order in another way, in streaming form, and
// known answers.
#include "numerics/fold.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "numerics/nan.hpp"

namespace twinops {
namespace {

// The fold of v[j], v[j + step], v[j + 2 step], ... below n = kFoldChunk: folding in half from the
// top adds first what differs in the highest bit of the index, so the last addition joins the even
// and the odd places.
template <class F>
F fold_of(const std::vector<F>& v, int j, int step) {
  if (step == kFoldChunk) return v[j];
  return fold_of(v, j, 2 * step) + fold_of(v, j + step, 2 * step);
}

// The balanced tree over chunks [first, first + n) of a list padded with +0; n is a power of two.
template <class F>
F tree_of(const std::vector<F>& v, std::size_t first, std::size_t n) {
  if (n > 1) return tree_of(v, first, n / 2) + tree_of(v, first + n / 2, n / 2);
  std::vector<F> chunk(kFoldChunk, F(0));
  for (std::size_t j = 0; j < chunk.size() && first * kFoldChunk + j < v.size(); ++j)
    chunk[j] = v[first * kFoldChunk + j];
  return fold_of(chunk, 0, 1);
}

template <class F>
F expected_sum(const std::vector<F>& v) {
  std::size_t chunks = 1;
  while (chunks * kFoldChunk < v.size()) chunks *= 2;
  return tree_of(v, 0, chunks) + F(0);
}

template <class F>
std::vector<F> random_values(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-30, 30);
  std::vector<F> v(n);
  for (F& x : v) x = static_cast<F>(std::ldexp(normal(random), exponent(random)));
  return v;
}

constexpr std::size_t kSizes[] = {0,    1,     2,     3,      1023,   1024,  1025, 2047,
                                  2048, 2049,  3072,  3073,   5000,   7168,  7169, 8192,
                                  9000, 16384, 16385, 100000, 131072, 131073};

template <class F>
class Fold : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Fold, Floats);

TYPED_TEST(Fold, EqualsTheRecursionBitForBit) {
  constexpr unsigned kSeed = 1024;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  for (std::size_t n : kSizes) {
    const auto v = random_values<TypeParam>(n, kSeed);
    ASSERT_EQ(to_bits(folded_sum(v.data(), static_cast<std::int64_t>(n))), to_bits(expected_sum(v)))
        << n << " values";
  }
}

// The order shows: another order gives other bits for these values.
TYPED_TEST(Fold, IsNotTheSumInSequence) {
  const auto v = random_values<TypeParam>(100000, 1024);
  TypeParam in_sequence = 0;
  for (TypeParam x : v) in_sequence += x;
  EXPECT_NE(to_bits(folded_sum(v.data(), 100000)), to_bits(in_sequence));
}

TYPED_TEST(Fold, ChunkTreeEqualsTheTreePaddedToAPowerOfTwo) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const auto sums = random_values<TypeParam>(300, kSeed);
  for (std::size_t n = 0; n <= sums.size(); ++n) {
    ChunkTree<TypeParam> tree;
    for (std::size_t i = 0; i < n; ++i) tree.add(sums[i]);
    std::size_t leaves = 1;
    while (leaves < n) leaves *= 2;
    std::vector<TypeParam> padded(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(n));
    padded.resize(leaves, TypeParam(0));
    for (; padded.size() > 1; padded.resize(padded.size() / 2))
      for (std::size_t i = 0; i < padded.size() / 2; ++i)
        padded[i] = padded[2 * i] + padded[2 * i + 1];
    ASSERT_EQ(to_bits(tree.total()), to_bits(TypeParam(padded[0] + TypeParam(0)))) << n << " sums";
  }
}

TYPED_TEST(Fold, PaddingDoesNotShow) {
  for (std::size_t n : {1, 5, 1024, 1025, 4000}) {
    auto v = random_values<TypeParam>(n, 3);
    const TypeParam sum = folded_sum(v.data(), static_cast<std::int64_t>(n));
    v.resize(5000, TypeParam(0));
    EXPECT_EQ(to_bits(folded_sum(v.data(), 5000)), to_bits(sum)) << n;
  }
}

TYPED_TEST(Fold, NoNegativeZeroLeaves) {
  for (std::size_t n : {0, 1, 1024, 1025, 4096}) {
    const std::vector<TypeParam> v(n, -TypeParam(0));
    EXPECT_EQ(to_bits(folded_sum(v.data(), static_cast<std::int64_t>(n))), 0u) << n;
  }
}

TYPED_TEST(Fold, FoldsInHalf) {
  std::vector<TypeParam> v = random_values<TypeParam>(kFoldChunk, 5), copy = v;
  EXPECT_EQ(to_bits(fold(copy.data(), kFoldChunk)), to_bits(fold_of(v, 0, 1)));
  TypeParam four[] = {1, TypeParam(1e30), -3, TypeParam(-1e30)};
  EXPECT_EQ(fold(four, 4), TypeParam(-2));  // (1 - 3) + (1e30 - 1e30)
}

// Known answers: the bits that this contract gives for values i * 0.1f - 37 on any machine. They
// were worked out by the recursion above in another language.
constexpr float known_sum(std::int64_t n) {
  ChunkTree<float> tree;
  for (std::int64_t first = 0; first < n; first += kFoldChunk) {
    float chunk[kFoldChunk] = {};
    for (std::int64_t j = first; j < n && j < first + kFoldChunk; ++j)
      chunk[j - first] = static_cast<float>(j) * 0.1f - 37.0f;
    tree.add(fold(chunk, kFoldChunk));
  }
  return tree.total();
}
TEST(FoldKnownAnswers, AtCompileTimeAndAtRunTime) {
  static_assert(known_sum(0) == 0.0f);
  static_assert(known_sum(1) == -37.0f);
  std::vector<float> v(5000);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i) * 0.1f - 37.0f;
  constexpr struct {
    std::int64_t n;
    std::uint32_t bits;
  } kKnown[] = {{2, 0xc293cccd},
                {1024, 0x46626668},
                {1025, 0x46636c02},
                {3000, 0x48a57440},
                {5000, 0x4981f970}};
  for (const auto& known : kKnown) {
    EXPECT_EQ(to_bits(folded_sum(v.data(), known.n)), known.bits) << known.n;
    EXPECT_EQ(to_bits(known_sum(known.n)), known.bits) << known.n;
  }
}

}  // namespace
}  // namespace twinops
