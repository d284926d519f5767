// Layout torch on every row, against PyTorch's dropout kernel played thread by thread: each thread
// has a generator and takes its elements in its own order, which the layout's formula never spells
// out. tests/torch/test_replay.py compares with PyTorch itself on a GPU.
#include <gtest/gtest.h>

#include "numerics/dropout.hpp"
#include "tests/support/dropout_row.hpp"

namespace twinops::test {
namespace {

class TorchLayout : public DropoutRow {};
INSTANTIATE_TEST_SUITE_P(EveryRow, TorchLayout, testing::ValuesIn(available_rows()), test_name);

constexpr std::uint64_t kSeed = 0xfedcba9876543210u, kOffset = 4096;

// A thread's generator after curand_init(seed, thread, offset): it gives whole blocks.
class Generator {
 public:
  explicit Generator(std::uint64_t thread) : thread_(thread) {}
  PhiloxBlock<std::uint32_t> four() { return philox_block(kSeed, thread_, block_++); }

 private:
  std::uint64_t thread_, block_ = kOffset / 4;
};

// The words that n elements draw on a GPU which holds `resident` threads.
Words played(std::size_t n, std::size_t resident, std::size_t vector) {
  Words words(n);
  const std::size_t threads = std::min((n + 255) / 256 * 256, resident);
  for (std::size_t thread = 0; thread < threads; ++thread) {
    Generator generator(thread);
    if (vector == 1) {
      for (std::size_t first = thread; first < n; first += 4 * threads) {
        const auto four = generator.four();
        for (std::size_t k = 0; k < 4; ++k)
          if (first + k * threads < n) words[first + k * threads] = four.w[k];
      }
      continue;
    }
    for (std::size_t first = thread * vector; first < n; first += threads * vector)
      for (std::size_t done = 0; done < vector; done += 4) {
        const auto four = generator.four();
        for (std::size_t k = 0; k < 4 && done + k < vector; ++k)
          words[first + done + k] = four.w[k];
      }
  }
  return words;
}

RandomOptions torch_options(std::int64_t resident, std::int64_t vector = 0) {
  return {
      .seed = kSeed, .offset = kOffset, .layout = "torch", .period = resident, .vector = vector};
}

// Of n elements and vectors of at most `vector`: as many as divide n.
std::size_t fitting(std::size_t n, std::size_t vector) {
  while (n % vector != 0) vector /= 2;
  return vector;
}

TEST_P(TorchLayout, DrawsWhatTheThreadsOfThatKernelDraw) {
  for (const std::int64_t resident : {256, 1024, 3 * 512})
    for (const std::int64_t n :
         {1, 2, 3, 4, 6, 8, 12, 255, 256, 257, 258, 1000, 1024, 4104, 6148, 6150, 6151, 24576})
      for (const std::int64_t vector : {0, 1, 2, 4, 8}) {
        const auto size = static_cast<std::size_t>(n);
        const std::size_t fits = fitting(size, vector == 0 ? 4 : static_cast<std::size_t>(vector));
        ASSERT_EQ(words({n}, torch_options(resident, vector)),
                  played(size, static_cast<std::size_t>(resident), fits))
            << n << " elements, " << resident << " threads, vectors of " << vector;
      }
}

// What the vector is where the call does not say: 16 bytes of the tensor's type.
TEST_P(TorchLayout, TakesVectorsOfSixteenBytes) {
  constexpr std::int64_t kN = 4096;
  const auto masks = [&]<class T>(DLDataType type, std::int64_t vector, T one) {
    const std::vector<T> x(kN, one);
    Bytes mask(kN, 0xca);
    const OnDevice x_at(GetParam(), x);
    const OnDevice m_at(GetParam(), mask);
    const Tensor in(x_at.data(), type, {kN}, x_at.device());
    dropout(in, in, m_at.tensor({kN}), {.p = 0.5, .random = torch_options(512, vector)}, on_row());
    m_at.read(mask);
    return mask;
  };
  const auto expect = [&](DLDataType type, std::int64_t vector, auto one) {
    const Bytes mask = masks(type, 0, one);
    for (const std::int64_t other : {1, 2, 4, 8})
      EXPECT_EQ(mask == masks(type, other, one), other == vector) << twinops_type_name(type);
  };
  expect(kFloat16, 8, std::uint16_t{0x3c00});
  expect(kBfloat16, 8, std::uint16_t{0x3f80});
  expect(kFloat32, 4, 1.0f);
  expect(kFloat64, 2, 1.0);
}

// A shard draws the whole's mask, and the mask is that of the words below 1 - p.
TEST_P(TorchLayout, OfAShardIsTheWhole) {
  const Shape whole = {6, 10, 20};
  DropoutOptions options{.p = 0.3, .random = torch_options(256)};
  const Drawn all = draw(whole, options);
  const Words drawn = played(1200, 256, 4);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    ASSERT_EQ(all.mask[i], curand_uniform(drawn[i]) < static_cast<float>(1 - 0.3)) << i;
    ASSERT_EQ(all.y[i], all.mask[i] ? static_cast<float>(i + 1) * (1.0f / 0.7f) : 0.0f) << i;
  }
  options.random.global_shape = whole;
  options.random.start = {2, 4, 7};
  const Drawn part = draw({3, 5, 13}, options);
  for (std::size_t i = 0; i < part.mask.size(); ++i)
    ASSERT_EQ(part.mask[i], all.mask[((2 + i / 65) * 10 + 4 + i / 13 % 5) * 20 + 7 + i % 13]) << i;
  EXPECT_EQ(part.random_words, all.random_words);
}

// As PyTorch's generator moves: four words a thread for each four elements that a thread takes.
TEST_P(TorchLayout, ReservesWhatTheGeneratorMovesBy) {
  const auto reserved = [&](std::int64_t n, std::int64_t resident) {
    return draw({n}, {.p = 0.5, .random = torch_options(resident)}).random_words;
  };
  EXPECT_EQ(reserved(0, 256), 0u);
  EXPECT_EQ(reserved(1, 256), 4u);
  EXPECT_EQ(reserved(1024, 256), 4u);
  EXPECT_EQ(reserved(1025, 256), 8u);
  EXPECT_EQ(reserved(1025, 512), 4u);
  EXPECT_EQ(reserved(100000, 65536), 4u);
}

// In float64 PyTorch compares the uniform float with 1 - p in double: words that round to one float
// are kept or dropped together, and the edge is not where a float's is.
TEST(TorchKeepRange, ComparesInTheComputeType) {
  for (const double p : {0.1, 0.3, 0x1p-30, 1e-20, 0.5, 0.9, 1 - 0x1p-24, 1 - 0x1p-40}) {
    const double wide = keep_probability<double>(RandomLayout::torch, p);
    const auto narrow = keep_probability<float>(RandomLayout::torch, p);
    EXPECT_EQ(wide, 1 - p);
    EXPECT_EQ(narrow, static_cast<float>(1 - p));
    const KeepRange of_double = words_below(wide), of_float = words_below(narrow);
    for (int d = -300; d < 300; ++d) {
      const std::uint32_t a = of_double.count + static_cast<std::uint32_t>(d);
      const std::uint32_t b = of_float.count + static_cast<std::uint32_t>(d);
      EXPECT_EQ(of_double.has(a), double{curand_uniform(a)} < wide) << p << " word " << a;
      EXPECT_EQ(of_float.has(b), curand_uniform(b) < narrow) << p << " word " << b;
    }
  }
  EXPECT_NE(words_below(0.9).count, words_below(0.9f).count);
}

}  // namespace
}  // namespace twinops::test
