// Philox4x32-10 against NVIDIA's own code, which needs no GPU and no driver: cuRAND's host
// generator, and curand_kernel.h compiled for the host.
#define QUALIFIERS [[maybe_unused]] static inline  // else the header's functions are for the device
#include <cuda_runtime.h>
#include <curand.h>
#include <curand_kernel.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "numerics/philox.hpp"

namespace twinops {
namespace {

using Words = std::vector<std::uint32_t>;

// The first n words of cuRAND's host generator, from an offset in words.
Words host_generator(std::uint64_t seed, std::uint64_t offset, std::size_t n,
                     curandOrdering_t ordering) {
  Words words(n);
  curandGenerator_t generator = nullptr;
  EXPECT_EQ(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10),
            CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandSetPseudoRandomGeneratorSeed(generator, seed), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandSetGeneratorOrdering(generator, ordering), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandSetGeneratorOffset(generator, offset), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandGenerate(generator, words.data(), n), CURAND_STATUS_SUCCESS);
  curandDestroyGenerator(generator);
  return words;
}

// Element e of layout strided(65536), the order of cuRAND's host API: group e / 4 takes subsequence
// (e / 4) mod 65536, block (e / 4) / 65536.
std::uint32_t strided_word(std::uint64_t seed, std::uint64_t e) {
  constexpr std::uint64_t kStride = 65536;
  const std::uint64_t group = e / 4;
  return philox_block(seed, group % kStride, group / kStride).w[e % 4];
}

constexpr std::uint64_t kSeeds[] = {0, 1, 20261121, 0x123456789abcdef0, ~std::uint64_t{0}};

TEST(Curand, HostGeneratorDrawsTheStridedLayout) {
  constexpr std::size_t kWords = 4 * 65536 * 3 + 4;  // three rounds over the subsequences
  for (std::uint64_t seed : kSeeds)
    for (curandOrdering_t ordering : {CURAND_ORDERING_PSEUDO_DEFAULT, CURAND_ORDERING_PSEUDO_BEST,
                                      CURAND_ORDERING_PSEUDO_LEGACY}) {
      const Words words = host_generator(seed, 0, kWords, ordering);
      for (std::size_t e = 0; e < kWords; ++e)
        ASSERT_EQ(words[e], strided_word(seed, e))
            << "seed " << seed << " ordering " << ordering << " word " << e;
    }
}

// The words of one subsequence lie 4 * 65536 apart in the host generator's order.
TEST(Curand, HostGeneratorHoldsTheContiguousLayout) {
  constexpr std::size_t kBlocks = 8;
  for (std::uint64_t seed : kSeeds) {
    const Words words =
        host_generator(seed, 0, kBlocks * 4 * 65536, CURAND_ORDERING_PSEUDO_DEFAULT);
    for (std::uint64_t subsequence : {0, 1, 2, 65535})
      for (std::uint64_t e = 0; e < 4 * kBlocks; ++e)
        ASSERT_EQ(words[(e / 4) * 4 * 65536 + subsequence * 4 + e % 4],
                  philox_block(seed, subsequence, e / 4).w[e % 4])
            << "seed " << seed << " subsequence " << subsequence << " word " << e;
  }
}

TEST(Curand, HeaderDrawsTheContiguousLayout) {
  constexpr unsigned kRandom = 4711;
  SCOPED_TRACE("seed " + std::to_string(kRandom));
  std::mt19937_64 random(kRandom);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t seed = random(), subsequence = random(), block = random() >> (i % 62 + 2);
    curandStatePhilox4_32_10_t state;
    curand_init(seed, subsequence, 4 * block, &state);
    for (std::uint64_t e = 0; e < 12; ++e) {  // one word at a time
      ASSERT_EQ(curand(&state), philox_block(seed, subsequence, block + e / 4).w[e % 4])
          << std::hex << "seed " << seed << " subsequence " << subsequence << " block " << block
          << " word " << e;
    }
    const uint4 four = curand4(&state);
    const auto expected = philox_block(seed, subsequence, block + 3);
    ASSERT_TRUE(four.x == expected.w[0] && four.y == expected.w[1] && four.z == expected.w[2] &&
                four.w == expected.w[3]);
  }
}

// The carry from the low to the high word of the block number.
TEST(Curand, HeaderCarriesOverTheBlockNumber) {
  for (std::uint64_t block : {0xfffffffeull, 0xffffffffull, 0x1fffffffeull}) {
    curandStatePhilox4_32_10_t state;
    curand_init(7, 9, 4 * block, &state);
    for (std::uint64_t e = 0; e < 16; ++e)
      ASSERT_EQ(curand(&state), philox_block(7, 9, block + e / 4).w[e % 4]) << block << " " << e;
  }
}

}  // namespace
}  // namespace twinops
