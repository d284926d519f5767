// Every length up to a chunk, and many up to two, where the CUDA kernels share a row out to lanes
// in dozens of ways: every kernel row gives the reference's bits and writes nothing else, from rows
// that begin at 16 bytes and from rows that begin anywhere.
#include <gtest/gtest.h>

#include "tools/proof/softmax_values.hpp"
#include "tools/proof/trial.hpp"
#include "tools/proof/values.hpp"

namespace {

constexpr std::uint64_t kSeed = 20261122;
constexpr std::int64_t kEvery = 1040, kMost = 2060, kStep = 7, kRows = 9;

struct Types {
  DLDataType in, out;
};
std::string name_of(Types types) {
  return std::string(twinops_type_name(types.in)) + "_to_" + twinops_type_name(types.out);
}
void PrintTo(const Types& types, std::ostream* out) { *out << name_of(types); }

// Of `values`, or, backward, of what the operator gives.
proof::Problem problem(const std::string& op, Types types, std::int64_t columns,
                       std::int64_t offset, const proof::Fill& values) {
  const proof::TensorSpec in{types.in, {kRows, columns}, {}, offset};
  const proof::TensorSpec out{types.out, {kRows, columns}, {}, offset};
  proof::Problem problem(op);
  if (op == "softmax_grad")
    problem.input("y", {in}, proof::probabilities());
  else if (op == "log_softmax_grad")
    problem.input("y", {in}, proof::log_probabilities());
  else
    return problem.input("x", {in}, values).output("out", {out});
  return problem.input("dy", {in}, proof::ordinary()).output("dx", {out});
}

// Compares every kernel row with the reference; returns what there was to compare.
proof::Share compare(const proof::Problem& problem, const std::string& where) {
  const proof::Trial trial(problem, kSeed);
  const proof::Outcome expected = proof::run(trial, "cpu/scalar");
  for (const std::string& row : twinops::available_rows()) {
    if (row == "cpu/scalar") continue;
    const proof::Outcome actual = proof::run(trial, row);
    const auto difference = proof::first_difference(trial, expected, actual);
    const auto stray = proof::stray_write(trial, actual.block);
    EXPECT_FALSE(difference || stray) << row << ", " << where << ", seed " << kSeed << ": "
                                      << (difference ? proof::describe(*difference) : *stray);
  }
  return proof::finite_share(trial, expected.block);
}

// Written as float32, results of 16 bits show in what order they were added.
class SoftmaxShortRows : public testing::TestWithParam<std::tuple<std::string, Types>> {};
INSTANTIATE_TEST_SUITE_P(
    EveryOperatorAndType, SoftmaxShortRows,
    testing::Combine(testing::Values("softmax", "log_softmax", "softmax_grad", "log_softmax_grad"),
                     testing::Values(Types{twinops::kFloat16, twinops::kFloat16},
                                     Types{twinops::kBfloat16, twinops::kBfloat16},
                                     Types{twinops::kFloat32, twinops::kFloat32},
                                     Types{twinops::kFloat64, twinops::kFloat64},
                                     Types{twinops::kFloat16, twinops::kFloat32},
                                     Types{twinops::kBfloat16, twinops::kFloat32})),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + name_of(std::get<1>(info.param));
    });

TEST_P(SoftmaxShortRows, AgreeAtEveryLength) {
  const auto& [op, types] = GetParam();
  proof::Share share;
  for (std::int64_t columns = 1; columns <= kMost && !HasFailure();
       columns += columns < kEvery ? 1 : kStep)
    for (const std::int64_t offset : {0, 3})
      share += compare(problem(op, types, columns, offset, proof::logits()),
                       std::to_string(columns) + " columns, offset " + std::to_string(offset));
  EXPECT_EQ(share.finite, share.elements);
  EXPECT_GT(share.nonzero * 4, share.elements) << "too many results are zero to prove anything";
}

// Out of exp's reach, and with infinities and NaNs: the least and the most of each number of packs,
// from 16 bytes on and not.
TEST_P(SoftmaxShortRows, AgreeOnRowsThatAreNotOrdinary) {
  const auto& [op, types] = GetParam();
  if (op.ends_with("_grad")) GTEST_SKIP() << "the backward passes know one kind of row";
  for (std::int64_t columns = 8; columns <= kMost && !HasFailure(); columns += 8)
    for (const std::int64_t more : {-1, 0, 1}) {
      const std::string where = std::to_string(columns + more) + " columns, ";
      compare(problem(op, types, columns + more, 0, proof::far()), where + "far");
      compare(problem(op, types, columns + more, 0, proof::whole_range()), where + "whole range");
    }
}

}  // namespace
