// uniform, philox_words and dropout against NVIDIA's own code, which needs no GPU and no driver:
// cuRAND's host generator draws layout strided(65536), curand_kernel.h compiled for the host draws
// layout contiguous.
#define QUALIFIERS [[maybe_unused]] static inline  // else the header's functions are for the device
#include <cuda_runtime.h>
#include <curand.h>
#include <curand_kernel.h>
#include <gtest/gtest.h>

#include "tests/support/on_device.hpp"

namespace twinops::test {
namespace {

constexpr std::size_t kN = 4 * 65536 * 2 + 1000;  // two rounds over the subsequences and more

class CurandRow : public testing::TestWithParam<std::string> {
 protected:
  template <class T, class Run>
  std::vector<T> filled(std::size_t n, Run&& run) const {
    std::vector<T> values(n);
    const OnDevice at(GetParam(), values);
    run(at.tensor({static_cast<std::int64_t>(n)}), Execution{.row = GetParam()});
    at.read(values);
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(EveryRow, CurandRow, testing::ValuesIn(available_rows()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '/') c = '_';
                           return name;
                         });

curandGenerator_t host_generator(std::uint64_t seed, std::uint64_t offset) {
  curandGenerator_t generator = nullptr;
  EXPECT_EQ(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10),
            CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandSetPseudoRandomGeneratorSeed(generator, seed), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandSetGeneratorOffset(generator, offset), CURAND_STATUS_SUCCESS);
  return generator;
}

TEST_P(CurandRow, StridedIsTheHostGenerators) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x123456789abcdef0}}) {
    std::vector<std::uint32_t> words(kN);
    std::vector<float> numbers(kN);
    curandGenerator_t generator = host_generator(seed, 0);
    ASSERT_EQ(curandGenerate(generator, words.data(), kN), CURAND_STATUS_SUCCESS);
    curandDestroyGenerator(generator);
    generator = host_generator(seed, 0);
    ASSERT_EQ(curandGenerateUniform(generator, numbers.data(), kN), CURAND_STATUS_SUCCESS);
    curandDestroyGenerator(generator);
    const RandomOptions options{.seed = seed, .layout = "strided", .period = 65536};
    EXPECT_EQ(
        filled<std::uint32_t>(
            kN, [&](const Tensor& out, const Execution& how) { philox_words(out, options, how); }),
        words);
    EXPECT_EQ(filled<float>(
                  kN, [&](const Tensor& out, const Execution& how) { uniform(out, options, how); }),
              numbers);

    // The elements that dropout keeps are those whose number is below 1 - p.
    for (const double p : {0.1, 0.5}) {
      std::vector<float> ones(kN, 1);
      const OnDevice x(GetParam(), ones);
      DropoutOptions dropping{.p = p};
      dropping.random = options;
      const auto mask = filled<std::uint8_t>(kN, [&](const Tensor& m, const Execution& how) {
        const Tensor t = x.tensor({static_cast<std::int64_t>(kN)});
        dropout(t, t, m, dropping, how);
      });
      for (std::size_t i = 0; i < kN; ++i)
        ASSERT_EQ(mask[i], numbers[i] < 1.0f - static_cast<float>(p)) << "p " << p << " " << i;
    }
  }
}

TEST_P(CurandRow, ContiguousIsOneThreads) {
  const RandomOptions options{.seed = 77, .subsequence = 0x100000005, .offset = 4000000000};
  constexpr std::size_t kWords = 10001;
  const auto words = filled<std::uint32_t>(
      kWords, [&](const Tensor& out, const Execution& how) { philox_words(out, options, how); });
  const auto numbers = filled<float>(
      kWords, [&](const Tensor& out, const Execution& how) { uniform(out, options, how); });
  curandStatePhilox4_32_10_t state, again;
  curand_init(options.seed, options.subsequence, options.offset, &state);
  again = state;
  for (std::size_t i = 0; i < kWords; ++i) {
    ASSERT_EQ(words[i], curand(&state)) << i;
    ASSERT_EQ(numbers[i], curand_uniform(&again)) << i;
  }
}

}  // namespace
}  // namespace twinops::test
