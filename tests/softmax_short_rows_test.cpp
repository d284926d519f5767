// Every length up to a chunk, and many up to two, where the CUDA kernels share a row out to lanes
// in dozens of ways: every kernel row gives the reference's bits and writes nothing else, from rows
// that begin at 16 bytes and from rows that begin anywhere.
#include "tests/support/softmax_rows.hpp"

namespace twinops::test {
namespace {

constexpr std::uint64_t kSeed = 20261122;
constexpr std::int64_t kEvery = 1040, kMost = 2060, kStep = 7;

// As many rows of up to 512 elements as an AVX-512 kernel takes at once, and a few.
constexpr std::int64_t rows_of(std::int64_t columns) { return columns <= 520 ? 19 : 9; }

using SoftmaxShortRows = SoftmaxRows;
INSTANTIATE_TEST_SUITE_P(EveryOperatorAndType, SoftmaxShortRows, kSoftmaxRows, name_of_softmax);
class SoftmaxShortRowsForward : public SoftmaxRows {};
INSTANTIATE_TEST_SUITE_P(EveryType, SoftmaxShortRowsForward, kForwardRows, name_of_softmax);

proof::Share compare(const std::string& op, Types types, const SoftmaxShape& shape,
                     const proof::Fill& values, const char* name = "") {
  return compare_rows(softmax_problem(op, types, shape, values), kSeed, shape.name() + name);
}

TEST_P(SoftmaxShortRows, AgreeAtEveryLength) {
  const auto& [op, types] = GetParam();
  proof::Share share;
  for (std::int64_t columns = 1; columns <= kMost && !HasFailure();
       columns += columns < kEvery ? 1 : kStep)
    for (const std::int64_t offset : {0, 3})
      share += compare(op, types, {rows_of(columns), columns, offset}, proof::logits());
  EXPECT_EQ(share.finite, share.elements);
  EXPECT_GT(share.nonzero * 4, share.elements) << "too many results are zero to prove anything";
}

// Blocks that have whole rows in shared memory: as many rows as fill some, one less and one more.
// Of these lengths a block takes 256 or 128 rows, 128 or 64, 64 or fewer 2^k; of the first few
// another number of hundreds, so that the last block is filled in part.
TEST_P(SoftmaxShortRows, AgreeWhereBlocksTakeManyRows) {
  const auto& [op, types] = GetParam();
  for (const std::int64_t columns :
       {1,   3,   10,  21,  33,  37,  63,  64,  65,  77,  123, 127, 128,
        129, 143, 255, 256, 257, 285, 411, 447, 513, 575, 799, 895}) {
    const std::int64_t blocks = columns < 30 ? 4096 : columns < 40 ? 256 : columns < 80 ? 128 : 64;
    for (const std::int64_t rows : {blocks - 1, blocks, blocks + 1})
      compare(op, types, {rows, columns, (rows + columns) % 8, rows % 2 == 0}, proof::logits());
  }
}

// Along more axes than one launch of a gradient counts along, none of which merges with another.
TEST_P(SoftmaxShortRows, AgreeAlongManyAxes) {
  const auto& [op, types] = GetParam();
  std::vector<std::int64_t> shape{2, 3, 1, 2, 2, 3, 2, 0}, strides(8);
  for (const std::int64_t columns : {5, 40, 1030}) {
    const std::int64_t gap = columns % 8 == 0 ? 8 : 3;
    shape.back() = columns;
    std::int64_t step = 1;
    for (const int axis : {7, 5, 0, 6, 3, 2, 1, 4}) {
      strides[axis] = step;
      step = step * shape[axis] + gap;
    }
    proof::Problem problem(op);
    const bool backward = op.ends_with("_grad");
    const proof::TensorSpec apart{types.in, shape, strides}, side_by_side{types.in, shape};
    const proof::TensorSpec out{types.out, shape, strides, gap};
    problem.input(backward ? "y" : "x", {apart},
                  backward ? proof::probabilities() : proof::logits());
    if (backward) problem.input("dy", {side_by_side}, proof::ordinary());
    problem.output(backward ? "dx" : "out", {out});
    const proof::Share share = compare_rows(problem, kSeed, std::to_string(columns) + " columns");
    EXPECT_EQ(share.finite, share.elements);
  }
}

// Out of exp's reach, and with infinities and NaNs: the least and the most of each number of
// vectors, from 16 bytes on and not.
TEST_P(SoftmaxShortRowsForward, AgreeOnRowsThatAreNotOrdinary) {
  const auto& [op, types] = GetParam();
  for (std::int64_t columns = 8; columns <= kMost && !HasFailure(); columns += 8)
    for (const std::int64_t more : {-1, 0, 1}) {
      compare(op, types, {rows_of(columns), columns + more}, proof::far(), ", far");
      compare(op, types, {rows_of(columns), columns + more}, proof::whole_range(), ", whole range");
    }
}

}  // namespace
}  // namespace twinops::test
