// Philox4x32-10: known answers at run time, and the words of a subsequence in order.
// tests/curand_test.cpp holds it against NVIDIA's own generators.
#include "numerics/philox.hpp"

#include <gtest/gtest.h>

#include <random>

namespace twinops {
namespace {

struct KnownAnswer {
  std::uint32_t counter[4], key[2], words[4];
};
// Random123's kat_vectors, philox4x32 10.
constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

// `volatile`, so that the compiler cannot do at compile time what is to be tested at run time.
std::uint32_t at_run_time(std::uint32_t word) {
  volatile std::uint32_t hidden = word;
  return hidden;
}

TEST(Philox, KnownAnswersAtRunTime) {
  for (const KnownAnswer& known : kKnownAnswers) {
    PhiloxBlock<std::uint32_t> counter{};
    for (int i = 0; i < 4; ++i) counter.w[i] = at_run_time(known.counter[i]);
    const std::uint64_t key = at_run_time(known.key[0]) | std::uint64_t{at_run_time(known.key[1])}
                                                              << 32;
    const auto words = philox4x32_10(counter, key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words.w[i], known.words[i]) << "word " << i;
  }
}

// The generator again, written with 64-bit products and shifts only.
PhiloxBlock<std::uint32_t> plain_philox(PhiloxBlock<std::uint32_t> c, std::uint64_t key) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c.w[0],
                        b = std::uint64_t{0xCD9E8D57} * c.w[2];
    const auto k0 = static_cast<std::uint32_t>(key + round * 0x9E3779B9);
    const auto k1 = static_cast<std::uint32_t>((key >> 32) + round * 0xBB67AE85);
    c = {{static_cast<std::uint32_t>(b >> 32) ^ c.w[1] ^ k0, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ c.w[3] ^ k1, static_cast<std::uint32_t>(a)}};
  }
  return c;
}

TEST(Philox, CounterAndKeyLieAsInCurand) {
  constexpr unsigned kSeed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t seed = random(), subsequence = random(), block = random();
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    const auto words = philox_block(seed, subsequence, block);
    const auto expected = plain_philox(
        {{low(block), low(block >> 32), low(subsequence), low(subsequence >> 32)}}, seed);
    for (int w = 0; w < 4; ++w)
      ASSERT_EQ(words.w[w], expected.w[w])
          << std::hex << "seed " << seed << " subsequence " << subsequence << " block " << block;
  }
}

TEST(Philox, AFamilyOfBlocksGivesEachItsWords) {
  constexpr unsigned kSeed = 20261122;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t seed = random(), subsequence = random(), block = random();
    const PhiloxKeys keys = philox_keys(seed);
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    const auto words = philox_rounds_of(
        philox_family(low(block >> 32), low(subsequence), low(subsequence >> 32), keys), low(block),
        keys);
    const auto expected = philox_block(seed, subsequence, block);
    for (int w = 0; w < 4; ++w)
      ASSERT_EQ(words.w[w], expected.w[w])
          << std::hex << "seed " << seed << " subsequence " << subsequence << " block " << block;
  }
}

}  // namespace
}  // namespace twinops
