// Rows of many chunks, a length or more for each of the ways in which the CUDA kernels bring warps
// and blocks together over a row: every kernel row gives the reference's bits and writes nothing
// else.
#include <limits>

#include "tests/support/softmax_rows.hpp"

namespace twinops::test {
namespace {

constexpr std::uint64_t kSeed = 20261123;
constexpr std::int64_t kChunk = 1024;

using SoftmaxLongRows = SoftmaxRows;
INSTANTIATE_TEST_SUITE_P(EveryOperatorAndType, SoftmaxLongRows, kSoftmaxRows, name_of_softmax);
class SoftmaxLongRowsForward : public SoftmaxRows {};
INSTANTIATE_TEST_SUITE_P(EveryType, SoftmaxLongRowsForward, kForwardRows, name_of_softmax);

TEST_P(SoftmaxLongRows, Agree) {
  const auto& [op, types] = GetParam();
  for (const std::int64_t columns :
       {kChunk + 31,      kChunk + 64,      kChunk + 100,     kChunk + 256,     kChunk + 257,
        kChunk + 500,     kChunk + 609,     kChunk + 700,     kChunk + 896,     kChunk + 1001,
        2 * kChunk + 1,   2 * kChunk + 129, 2 * kChunk + 300, 2 * kChunk + 600, 3 * kChunk + 65,
        4 * kChunk + 32,  5 * kChunk,       6 * kChunk + 200, 7 * kChunk + 384, 8 * kChunk + 65,
        10 * kChunk + 65, 12 * kChunk + 7,  13 * kChunk,      16 * kChunk + 64, 18 * kChunk,
        20 * kChunk,      33 * kChunk - 1,  65 * kChunk,      81 * kChunk + 3,  96 * kChunk + 3,
        129 * kChunk + 8, 257 * kChunk - 5, 513 * kChunk,     1025 * kChunk + 3})
    for (const std::int64_t offset : {0, 3})
      for (const std::int64_t rows : {1, columns < 60 * kChunk ? 7 : 2}) {
        const SoftmaxShape shape{rows, columns, offset};
        compare_rows(softmax_problem(op, types, shape, proof::logits()), kSeed, shape.name());
        if (HasFailure()) return;
      }
}

// Further rows follow those whose maximum is out of exp's range, which are taken twice. On a GPU
// with few blocks, rows of 260 chunks make more groups of the tile scheduler than a block keeps
// count of at a time.
TEST_P(SoftmaxLongRowsForward, AgreeOnRowsThatAreNotOrdinary) {
  const auto& [op, types] = GetParam();
  for (const std::int64_t columns :
       {kChunk + 100, kChunk + 700, 2 * kChunk + 200, 2 * kChunk + 300, 3 * kChunk + 1,
        4 * kChunk + 600, 12 * kChunk - 7, 13 * kChunk - 7, 40 * kChunk, 130 * kChunk + 1,
        260 * kChunk - 7, 600 * kChunk})
    for (const auto& values : {proof::far(), proof::whole_range()}) {
      const SoftmaxShape shape{columns < 100 * kChunk ? 21 : 5, columns};
      compare_rows(softmax_problem(op, types, shape, values), kSeed, shape.name());
      if (HasFailure()) return;
    }
}

// A NaN may hide values of its lane from what is taken as the row's maximum, and then even the
// second look finds some out of reach. There is no third.
TEST_P(SoftmaxLongRowsForward, ANaNBesideValuesOutOfReach) {
  const auto& [op, types] = GetParam();
  std::vector<double> values(514, 1e25);
  values[0] = std::numeric_limits<double>::quiet_NaN();
  values[512] = 1e30;
  for (const std::int64_t columns :
       {40 * kChunk, 1030 * kChunk})  // where one thread cuts rows, too
    for (const int threads : {1, 2, 7}) {
      const SoftmaxShape shape{1, columns};
      compare_rows(softmax_problem(op, types, shape, proof::numbers(values)), kSeed,
                   shape.name() + ", " + std::to_string(threads) + " threads",
                   {.threads = threads});
    }
}

}  // namespace
}  // namespace twinops::test
