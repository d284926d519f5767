// Results of 32 MB and more, which the CPU's kernels write past the caches: every kernel row gives
// the reference's bits and writes nothing else. Rows begin at a line, or anywhere within one.
#include "tests/support/softmax_rows.hpp"

namespace twinops::test {
namespace {

constexpr std::uint64_t kSeed = 20261130;
constexpr std::int64_t kBytes = std::int64_t{1} << 25;

class SoftmaxLargeResults : public SoftmaxRows {};
INSTANTIATE_TEST_SUITE_P(EachGradient, SoftmaxLargeResults,
                         testing::Combine(testing::Values("softmax_grad", "log_softmax_grad"),
                                          testing::Values(Types{kFloat32, kFloat32},
                                                          Types{kFloat64, kFloat64},
                                                          Types{kBfloat16, kFloat32})),
                         name_of_softmax);

// Lengths of whole vectors, of whole lines, of neither, of more than a chunk.
TEST_P(SoftmaxLargeResults, Agree) {
  const auto& [op, types] = GetParam();
  const bool all = types.in.bits == 32;
  for (const auto& [columns, offset] :
       {std::pair{64, 0}, {72, 3}, {200, 1}, {512, 0}, {1000, 5}, {2047, 0}}) {
    if (!all && columns != 72 && columns != 512) continue;
    const std::int64_t rows = kBytes / (columns * types.out.bits / 8) + 2;
    const SoftmaxShape shape{rows, columns, offset};
    const proof::Share share =
        compare_rows(softmax_problem(op, types, shape, proof::logits()), kSeed, shape.name());
    EXPECT_EQ(share.finite, share.elements);
  }
}

}  // namespace
}  // namespace twinops::test
