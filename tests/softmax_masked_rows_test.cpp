// Rows under scale and masks where kernels take them in ways of their own: every kernel row gives
// the reference's bits and writes nothing else. (What a mask means: softmax_mask_test.cpp; every
// kind of mask over every kind of row: tools/proof/softmax_mask_cases.cpp.)
#include <limits>

#include "tests/support/softmax_rows.hpp"
#include "tools/proof/softmax_cases.hpp"

namespace twinops::test {
namespace {

constexpr std::uint64_t kSeed = 20261125;

using SoftmaxMaskedRows = SoftmaxRows;
INSTANTIATE_TEST_SUITE_P(
    ForwardOfEveryType, SoftmaxMaskedRows,
    testing::Combine(testing::Values("softmax", "log_softmax"),
                     testing::Values(Types{kFloat16, kFloat16}, Types{kBfloat16, kBfloat16},
                                     Types{kFloat32, kFloat32}, Types{kFloat64, kFloat64},
                                     Types{kFloat16, kFloat32})),
    name_of_softmax);

// A mask of x's type, of float32 or of bytes over x.
struct Mask {
  const char* name;
  proof::TensorSpec tensor;
};
std::vector<Mask> masks(DLDataType x, const std::vector<std::int64_t>& shape,
                        std::int64_t offset = 0) {
  std::vector<Mask> all{{"bytes", {kBool, shape, {}, offset}}, {"numbers", {x, shape, {}, offset}}};
  if (x.bits == 16) all.push_back({"float32 numbers", {kFloat32, shape, {}, offset}});
  return all;
}
proof::Problem masked(const std::string& op, Types types, const std::vector<std::int64_t>& shape,
                      const Mask& mask) {
  proof::Problem problem(op);
  problem.input("x", {{types.in, shape}}, proof::logits())
      .input("mask", {mask.tensor},
             mask.tensor.type.bits == 8 ? proof::some_bytes(3) : proof::biases(4))
      .output("out", {{types.out, shape}})
      .attribute("scale", 0.3);
  return problem;
}

// Rows and masks that lie along so many axes which do not merge that a kernel does not count along
// all of them: its launches are given parts of x, of the mask, of lengths and of the triangle.
TEST_P(SoftmaxMaskedRows, AgreeAlongManyAxes) {
  const auto& [op, types] = GetParam();
  for (const std::int64_t columns : {5, 33, 40, 1030, 3000})
    for (const std::int64_t queries : {4, 2})  // the longest of the axes, the shortest
      for (const Mask& mask : masks(types.in, {3, 1, 3, 1, queries, columns})) {
        const std::vector<std::int64_t> shape{3, 3, 3, 3, queries, columns};
        proof::Problem problem = masked(op, types, shape, mask);
        problem.input("lengths", {{kInt64, {3, 1, 3, 3}}},
                      proof::integers({columns, 3, columns / 2 + 1, columns - 1, 1, columns + 5,
                                       columns / 3 + 1, 2, columns, columns, 4, columns}));
        problem.attribute("causal", true).attribute("causal_offset", columns - 2);
        compare_rows(problem, kSeed,
                     std::to_string(queries) + " x " + std::to_string(columns) + ", " + mask.name);
      }
}

// Rows of x that begin at 16 bytes, under masks that begin anywhere; and as many rows as do not
// fill the last block, or the last warp.
TEST_P(SoftmaxMaskedRows, AgreeUnderMasksThatBeginAnywhere) {
  const auto& [op, types] = GetParam();
  for (const std::int64_t columns : {8, 64, 96, 512, 1000, 1024, 2048, 20480})
    for (const std::int64_t offset : {0, 1, 4, 8})
      for (const Mask& mask : masks(types.in, {3, columns}, offset))
        compare_rows(masked(op, types, {7, 3, columns}, mask), kSeed,
                     std::to_string(columns) + " columns, " + mask.name + " from element " +
                         std::to_string(offset) + " on");
}

// Rows of x and of the mask that both begin anywhere, with what is none of theirs between them: of
// every length about a word, a vector, a lane's vectors and a chunk, whole and cut.
TEST_P(SoftmaxMaskedRows, AgreeWhereRowsOfBothBeginAnywhere) {
  const auto& [op, types] = GetParam();
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t columns :
       {1,   2,   3,   4,   5,   7,    8,    9,    12,   15,   16,   17,
        24,  33,  57,  65,  100, 129,  257,  383,  500,  511,  513,  577,
        641, 767, 769, 900, 997, 1001, 1019, 1023, 1024, 1025, 2049, 3001}) {
    const std::vector<std::int64_t> shape{kRows, columns};
    for (const std::int64_t offset : {0, 1, 2, 3})
      for (const Mask& mask : masks(types.in, shape))
        for (const bool cut : {false, true}) {
          proof::TensorSpec bits = mask.tensor;
          bits.strides = {columns + 1 + offset, 1};
          bits.offset = offset;
          proof::Problem problem(op);
          problem.input("x", {{types.in, shape, {columns + 3, 1}, offset}}, proof::logits())
              .input("mask", {bits}, bits.type.bits == 8 ? proof::some_bytes(3) : proof::biases(4))
              .output("out", {{types.out, shape, {columns + 3, 1}, offset}})
              .attribute("scale", offset % 2 == 0 ? 0.3 : -1.5);
          if (cut)
            problem.input("lengths", {{kInt32, {kRows}}},
                          proof::integers({columns - 1, columns / 2, 3, columns - 9, columns}));
          compare_rows(problem, kSeed,
                       std::to_string(columns) + " columns, " + mask.name + " from element " +
                           std::to_string(offset) + " on" + (cut ? ", cut" : ""));
        }
    if (HasFailure()) return;
  }
}

// Short rows that begin anywhere, side by side: on their way through a block's shared memory, of
// every number of words a lane. A scale alone, a mask, lengths.
TEST_P(SoftmaxMaskedRows, AgreeSideBySide) {
  const auto& [op, types] = GetParam();
  for (std::int64_t columns = 1; columns < 600; columns += columns < 90 ? 3 : 13) {
    const std::int64_t queries = columns < 90 ? 31 : 13;
    const std::vector<std::int64_t> shape{9, queries, columns};
    const std::string where = std::to_string(columns) + " columns, ";
    proof::Problem scaled(op);
    scaled.input("x", {{types.in, shape}}, proof::logits())
        .output("out", {proof::in_place({types.out, shape}, "x")})
        .attribute("scale", -0.7);
    if (types.are_equal()) compare_rows(scaled, kSeed, where + "a scale");
    for (const Mask& mask : masks(types.in, {queries, columns}))
      compare_rows(masked(op, types, shape, mask), kSeed, where + mask.name);
    proof::Problem cut(op);
    cut.input("x", {{types.in, shape}}, proof::logits())
        .input("lengths", {{kInt32, {9}}},
               proof::integers(
                   {columns, 1, columns - 1, columns, columns / 2, columns + 3, 2, 0, columns}))
        .output("out", {{types.out, shape}})
        .attribute("masked_rows", "zeros");
    compare_rows(cut, kSeed, where + "lengths");
    if (HasFailure()) return;
  }
}

// Scales that keep the order of x, turn it round, or make of every number the same and NaN of
// infinity, where some elements do not count: whatever a kernel does before it scales, it does to
// what counts alone, not to NaNs and infinities beside it. Rows in vectors, in part of the last
// vector, and that begin anywhere.
TEST_P(SoftmaxMaskedRows, AgreeUnderScalesOfEverySign) {
  const auto& [op, types] = GetParam();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kBatch = 2, kRows = 3;
  for (const std::int64_t columns : {8, 72, 100, 512, 1000, 1024, 2501}) {
    const std::vector<std::int64_t> shape{kBatch, kRows, columns};
    const auto lengths = proof::integers({columns - 3, columns / 2 + 1});
    for (const double scale : {2.0, -0.7, 0.0, -0.0})
      for (const auto& [name, values] :
           {std::pair{"ordinary", proof::logits()},
            {"infinities below", proof::every_nth(2 * columns + 5, -kInfinity, kNan)},
            {"infinities above", proof::every_nth(2 * columns + 5, kInfinity, kNan)},
            {"NaNs", proof::every_nth(2 * columns + 7, kNan, 1.5)},
            {"NaN and infinity at rows' ends",
             proof::with(proof::with(proof::logits(), 0, columns - 1, proof::Special::quiet_nan), 0,
                         2 * columns - 2, proof::Special::infinity)},
            {"whole range", proof::whole_range()}})
        for (const char* mask : {"nothing", "bytes", "lengths", "causal", "bytes and lengths"}) {
          const std::string kind = mask;
          proof::Problem problem(op);
          problem.input("x", {{types.in, shape}}, values).output("out", {{types.out, shape}});
          problem.attribute("scale", scale).attribute("masked_rows", "zeros");
          if (kind.starts_with("bytes"))
            problem.input("mask", {{kUint8, shape}}, proof::some_bytes(3));
          if (kind.ends_with("lengths")) problem.input("lengths", {{kInt32, {kBatch}}}, lengths);
          if (kind == "causal")
            problem.attribute("causal", true).attribute("causal_offset", columns - 3);
          compare_rows(problem, kSeed,
                       std::to_string(columns) + " columns, " + name + " under a scale of " +
                           std::to_string(scale) + " and " + mask);
        }
    if (HasFailure()) return;
  }
}

// As many rows at once as a vector has lanes, and some that are left, every few of which are not
// ordinary: masked out throughout, by bytes or by their length, out of exp's reach, or with
// infinities and NaNs.
TEST_P(SoftmaxMaskedRows, AgreeBesideRowsThatAreNotOrdinary) {
  const auto& [op, types] = GetParam();
  constexpr std::int64_t kRows = 39;
  for (const std::int64_t columns :
       {1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 64, 100, 255, 256, 257, 512}) {
    const std::vector<std::int64_t> shape{kRows, columns};
    const auto lengths =
        proof::integers({columns, columns / 2, columns - 1, columns, 0, 1, columns});
    for (const auto& [name, values] : {std::pair{"ordinary", proof::logits()},
                                       {"far", proof::far()},
                                       {"whole range", proof::whole_range()}})
      for (const Mask& mask : masks(types.in, shape))
        for (const bool cut : {false, true}) {
          proof::Problem problem(op);
          problem.input("x", {{types.in, shape}}, values)
              .input("mask", {mask.tensor},
                     mask.tensor.type.bits == 8 ? proof::some_bytes(2) : proof::biases(4))
              .output("out", {{types.out, shape}})
              .attribute("masked_rows", "zeros");
          if (cut) problem.input("lengths", {{kInt64, {kRows}}}, lengths);
          compare_rows(problem, kSeed,
                       std::to_string(columns) + " columns, " + name + ", " + mask.name +
                           (cut ? " and lengths" : ""));
        }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace twinops::test
