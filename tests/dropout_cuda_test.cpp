// Dropout on the device alone: in a captured CUDA graph, where seed and offset lie on the device,
// so that each replay draws new numbers, and two calls of one graph draw from different parts of
// the sequence; and over more than 2^31 elements.
#include <gtest/gtest.h>

#include "tests/support/cuda.hpp"
#include "tests/support/on_device.hpp"

namespace twinops::test {
namespace {

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)

constexpr std::int64_t kN = 10007;
const std::string kRow = "cuda";
using Bytes = std::vector<std::uint8_t>;

// The masks of two calls, one after the other, from `offset` on: eagerly.
std::vector<Bytes> expected_masks(std::int64_t seed, std::int64_t offset) {
  std::vector<Bytes> masks;
  const OnDevice x(kRow, std::vector<float>(kN, 1));
  for (int call = 0; call < 2; ++call) {
    Bytes mask(kN);
    const OnDevice at(kRow, mask);
    DropoutOptions options{.p = 0.25};
    options.random.seed = static_cast<std::uint64_t>(seed);
    options.random.offset = static_cast<std::uint64_t>(offset);
    const Tensor t = x.tensor({kN});
    offset += static_cast<std::int64_t>(dropout(t, t, at.tensor({kN}), options).random_words);
    at.read(mask);
    masks.push_back(mask);
  }
  return masks;
}

TEST(DropoutGraph, DrawsAnewAtEachReplay) {
  TWINOPS_NEEDS_DEVICE;
  const OnDevice x(kRow, std::vector<float>(kN, 1)), y(kRow, std::vector<float>(kN, 7));
  const OnDevice first(kRow, Bytes(kN)), second(kRow, Bytes(kN));
  const OnDevice state(kRow, std::vector<std::int64_t>{0, 0});
  const Tensor states = state.tensor({2});
  auto* words = static_cast<std::int64_t*>(states.dlpack().data);
  const DLDevice device{kDLCUDA, 0};

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  DropoutOptions options{.p = 0.25};
  options.random.seed_tensor = Tensor(words, {1}, device);
  options.random.offset_tensor = Tensor(words + 1, {1}, device);
  const Execution on_stream{.stream = stream};
  const Report report =
      dropout(x.tensor({kN}), y.tensor({kN}), first.tensor({kN}), options, on_stream);
  options.random.offset = report.random_words;
  dropout(x.tensor({kN}), y.tensor({kN}), second.tensor({kN}), options, on_stream);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&replay, graph, 0));

  Bytes last;
  for (std::int64_t step = 0; step < 3; ++step) {
    const std::int64_t now[2] = {-5 + step / 2,
                                 step * 2 * static_cast<std::int64_t>(report.random_words)};
    check(twinops_copy(device, words, kHost, now, sizeof(now)));
    ASSERT_CUDA(cudaGraphLaunch(replay, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    const std::vector<Bytes> expected = expected_masks(now[0], now[1]);
    Bytes masks[2] = {Bytes(kN), Bytes(kN)};
    first.read(masks[0]);
    second.read(masks[1]);
    EXPECT_EQ(masks[0], expected[0]) << "replay " << step;
    EXPECT_EQ(masks[1], expected[1]) << "replay " << step;
    EXPECT_NE(masks[0], masks[1]) << "replay " << step;
    EXPECT_NE(masks[0], last) << "replay " << step;
    last = masks[0];
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

// In place, with a bit mask: each window of it is what the host draws for those elements.
TEST(DropoutCuda, MoreThanTwoToThe31Elements) {
  TWINOPS_NEEDS_DEVICE;
  constexpr std::int64_t kMany = (std::int64_t{1} << 31) + 75, kWindow = 4096;
  const DLDevice device{kDLCUDA, 0};
  void *x = nullptr, *mask = nullptr;
  if (twinops_allocate(device, kMany * 2, &x) != TWINOPS_OK ||
      twinops_allocate(device, kMany / 8 + 8, &mask) != TWINOPS_OK) {
    twinops_release(device, x);
    GTEST_SKIP() << "not enough memory: " << twinops_last_error();
  }
  ASSERT_CUDA(cudaMemset(x, 0x3c, kMany * 2));  // 1.0586 throughout
  ASSERT_CUDA(cudaMemset(mask, 0xca, kMany / 8 + 8));
  DropoutOptions options{.p = 0.5};
  options.random = {.seed = 3, .offset = 4};
  const Tensor t(x, kFloat16, {kMany}, device);
  EXPECT_EQ(dropout(t, t, Tensor(mask, kUint32, {(kMany + 31) / 32}, device), options).random_words,
            static_cast<std::uint64_t>((kMany + 3) / 4 * 4));
  std::vector<std::uint32_t> bits(kWindow / 32);
  std::vector<std::uint16_t> halves(kWindow);
  std::vector<std::uint32_t> words(kWindow);
  for (const std::int64_t begin :
       {std::int64_t{0}, (std::int64_t{1} << 31) - kWindow, (kMany - kWindow + 31) / 32 * 32}) {
    check(twinops_copy(kHost, bits.data(), device, static_cast<char*>(mask) + begin / 8,
                       bits.size() * 4));
    const std::int64_t n = std::min(kWindow, kMany - begin);
    check(twinops_copy(kHost, halves.data(), device, static_cast<char*>(x) + begin * 2,
                       static_cast<std::size_t>(n) * 2));
    philox_words(Tensor(words.data(), {kWindow}),
                 {.seed = 3, .offset = 4, .element_offset = begin});
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool kept = words[at] < 0x7fffffc0u;
      ASSERT_EQ(bits[at / 32] >> (at % 32) & 1, kept) << begin + i;
      ASSERT_EQ(halves[at], kept ? 0x403c : 0) << begin + i;
    }
  }
  twinops_release(device, x);
  twinops_release(device, mask);
}

}  // namespace
}  // namespace twinops::test
