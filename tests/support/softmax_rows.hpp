// A softmax of one shape in every kernel row, held to the reference.
#pragma once

#include <gtest/gtest.h>

#include "tools/proof/softmax_values.hpp"
#include "tools/proof/trial.hpp"
#include "tools/proof/values.hpp"

namespace twinops::test {

struct Types {
  DLDataType in, out;
  bool are_equal() const { return in.code == out.code && in.bits == out.bits; }
};
inline std::string name_of(Types types) {
  return std::string(twinops_type_name(types.in)) + "_to_" + twinops_type_name(types.out);
}
inline void PrintTo(const Types& types, std::ostream* out) { *out << name_of(types); }

// Every softmax in every type. Written as float32, results of 16 bits show in what order they were
// added.
class SoftmaxRows : public testing::TestWithParam<std::tuple<std::string, Types>> {};
inline const auto kSoftmaxTypes = testing::Values(
    Types{kFloat16, kFloat16}, Types{kBfloat16, kBfloat16}, Types{kFloat32, kFloat32},
    Types{kFloat64, kFloat64}, Types{kFloat16, kFloat32}, Types{kBfloat16, kFloat32});
inline const auto kSoftmaxRows = testing::Combine(
    testing::Values("softmax", "log_softmax", "softmax_grad", "log_softmax_grad"), kSoftmaxTypes);
// Of those that know several kinds of rows: the backward passes know one.
inline const auto kForwardRows =
    testing::Combine(testing::Values("softmax", "log_softmax"), kSoftmaxTypes);
inline std::string name_of_softmax(const testing::TestParamInfo<SoftmaxRows::ParamType>& info) {
  return std::get<0>(info.param) + "_" + name_of(std::get<1>(info.param));
}

// Of what, and where it lies: rows begin `offset` elements beyond 16 bytes. In place only where the
// types are equal.
struct SoftmaxShape {
  std::int64_t rows, columns, offset = 0;
  bool in_place = false;

  std::string name() const {
    return std::to_string(rows) + " x " + std::to_string(columns) + ", offset " +
           std::to_string(offset) + (in_place ? ", in place" : "");
  }
};

// Of `values`, or, backward, of what the operator gives.
inline proof::Problem softmax_problem(const std::string& op, Types types, const SoftmaxShape& shape,
                                      const proof::Fill& values) {
  const proof::TensorSpec in{types.in, {shape.rows, shape.columns}, {}, shape.offset};
  proof::TensorSpec out{types.out, {shape.rows, shape.columns}, {}, shape.offset};
  const bool backward = op.ends_with("_grad");
  if (shape.in_place && types.are_equal()) out = proof::in_place(out, backward ? "dy" : "x");
  proof::Problem problem(op);
  if (!backward) return problem.input("x", {in}, values).output("out", {out});
  problem.input("y", {in},
                op == "softmax_grad" ? proof::probabilities() : proof::log_probabilities());
  return problem.input("dy", {in}, proof::ordinary()).output("dx", {out});
}

// Compares every kernel row with the reference; returns what there was to compare.
inline proof::Share compare_rows(const proof::Problem& problem, std::uint64_t seed,
                                 const std::string& where, const Execution& execution = {}) {
  const proof::Trial trial(problem, seed);
  const proof::Outcome expected = proof::run(trial, "cpu/scalar");
  for (const std::string& row : available_rows()) {
    if (row == "cpu/scalar") continue;
    const proof::Outcome actual = proof::run(trial, row, execution);
    const auto difference = proof::first_difference(trial, expected, actual);
    const auto stray = proof::stray_write(trial, actual.block);
    EXPECT_FALSE(difference || stray) << row << ", " << where << ", seed " << seed << ": "
                                      << (difference ? proof::describe(*difference) : *stray);
  }
  return proof::finite_share(trial, expected.block);
}

}  // namespace twinops::test
