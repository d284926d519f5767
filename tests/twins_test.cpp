// The twins, bit for bit: every case of tools/proof but whole models, which are crosscheck's, on
// every kernel row of this machine, against the scalar reference. Numbers of threads,
// floating-point states of the host, OpenMP's threads and the host's change from run to run; some
// cases meet every combination of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "tests/support/host_modes.hpp"
#include "tests/support/runners.hpp"
#include "tools/proof/trial.hpp"

namespace twinops::test {
namespace {

using proof::Case;
using proof::Outcome;
using proof::Trial;

std::uint64_t seed() {
  const char* asked = std::getenv("TWINOPS_TEST_SEED");
  return asked == nullptr ? 20261121 : std::strtoull(asked, nullptr, 0);
}

// The cases of one operator that are reported under one type.
struct Group {
  proof::OperatorCases table;
  std::string type;
  std::vector<Case> cases() const {
    std::vector<Case> all = table.make();
    std::erase_if(all, [&](const Case& c) { return c.type != type; });
    return all;
  }
};
void PrintTo(const Group& group, std::ostream* out) { *out << group.type; }
std::vector<Group> groups() {
  std::vector<Group> all;
  for (const proof::OperatorCases& table : proof::operator_cases()) {
    const std::vector<Case> cases = table.make();
    for (const char* type : {"float16", "bfloat16", "float32", "float64", "mixed"})
      if (std::ranges::any_of(cases, [&](const Case& c) { return c.type == type; }))
        all.push_back({table, type});
  }
  return all;
}

Outcome reference(const Trial& trial) { return proof::run(trial, "cpu/scalar"); }

// One run in a state of the host; checks that the state comes back.
Outcome run_in(const HostMode& mode, const Trial& trial, const std::string& row,
               const Runner& runner, int threads) {
  proof::Placed placed(trial, proof::device_of(row));
  const Execution execution{.threads = threads, .row = row, .parallel_for = runner.parallel_for};
  Report report;
  {
    const InHostMode host(mode);
    report = placed.run(execution);
    EXPECT_EQ(float_control(), mode.control) << "the caller's floating-point state has changed";
  }
  EXPECT_EQ(report.row, row);
  return {std::move(placed).take(), report};
}

// Whether the run gave the reference's bits and wrote nothing else.
testing::AssertionResult equal(const Trial& trial, const Outcome& expected, const Outcome& actual) {
  if (const auto difference = proof::first_difference(trial, expected, actual))
    return testing::AssertionFailure() << proof::describe(*difference);
  if (const auto stray = proof::stray_write(trial, actual.block))
    return testing::AssertionFailure() << *stray;
  return testing::AssertionSuccess();
}

class Twins : public testing::TestWithParam<Group> {
 protected:
  std::string where(const Case& a_case, const std::string& row, int threads, const HostMode& mode,
                    const Runner& runner) const {
    return a_case.name + ", " + row + ", " + std::to_string(threads) + " threads, " + mode.name +
           ", " + runner.name + ", seed " + std::to_string(seed());
  }
};
std::string name_of_group(const testing::TestParamInfo<Group>& info) {
  return info.param.table.op + std::string("_") + info.param.type;
}
INSTANTIATE_TEST_SUITE_P(EveryOperatorAndType, Twins, testing::ValuesIn(groups()), name_of_group);

bool is_worth_threads(const Case& c) { return c.elements >= 1 << 15 && c.elements <= 1 << 17; }
std::vector<Group> groups_worth_threads() {
  std::vector<Group> all = groups();
  std::erase_if(all,
                [](const Group& g) { return std::ranges::none_of(g.cases(), is_worth_threads); });
  return all;
}
class TwinsOnThreads : public Twins {};
INSTANTIATE_TEST_SUITE_P(EveryOperatorAndType, TwinsOnThreads,
                         testing::ValuesIn(groups_worth_threads()), name_of_group);

// TWINOPS_TEST_ROWS=cuda: only rows that begin so, for tools that make everything slow.
std::vector<std::string> rows() {
  std::vector<std::string> all = available_rows();
  if (const char* asked = std::getenv("TWINOPS_TEST_ROWS"))
    std::erase_if(all, [&](const std::string& row) { return !row.starts_with(asked); });
  return all;
}
bool on_the_host(const std::string& row) { return row.starts_with("cpu/"); }

// The numbers of threads that a case runs on. Kernels take one for a small case, whatever is asked
// for; a large one runs on one of the numbers, by turns. The reference, slow and of one thread, is
// held to itself in small cases.
std::span<const int> thread_counts(const Case& a_case, const std::string& row, std::size_t turn) {
  const std::span<const int> all(kThreadCounts);
  if (row == "cpu/scalar") return all.first(a_case.elements < 1 << 13 ? 1 : 0);
  if (a_case.elements < 1 << 15 || !on_the_host(row)) return all.first(1);
  return a_case.elements > 1 << 17 ? all.subspan(turn % all.size(), 1) : all;
}

// Every case that is not a whole model; the host's state and the runner change from run to run.
TEST_P(Twins, AgreeOnEveryCase) {
  proof::Share share;
  std::size_t number = 0, turn = 0;
  for (const Case& a_case : GetParam().cases()) {
    if (a_case.elements > 1 << 20) continue;
    const Trial trial(a_case.problem(), seed());
    const Outcome expected = reference(trial);
    share += proof::finite_share(trial, expected.block);
    ++number;
    for (const std::string& row : rows()) {
      for (const int threads : thread_counts(a_case, row, number)) {
        const HostMode& mode = kHostModes[(turn + number / 5) % std::size(kHostModes)];
        const Runner& runner = kRunners[(turn / 3 + number) % std::size(kRunners)];
        ++turn;
        ASSERT_TRUE(equal(trial, expected, run_in(mode, trial, row, runner, threads)))
            << where(a_case, row, threads, mode, runner);
      }
    }
  }
  EXPECT_GT(turn, 0u) << "no row was compared";
  EXPECT_GT(share.elements, 0);
  EXPECT_GT(share.finite * 2, share.elements) << "too few results are finite to prove anything";
  EXPECT_GT(share.nonzero * 4, share.elements) << "too many results are zero to prove anything";
}

// Some cases that are worth many threads, in every combination.
TEST_P(TwinsOnThreads, AgreeInEveryState) {
  std::vector<Case> cases = GetParam().cases();
  std::erase_if(cases, [](const Case& c) { return !is_worth_threads(c); });
  ASSERT_FALSE(cases.empty());
  constexpr std::size_t kMost = 2;
  const std::size_t step = (cases.size() + kMost - 1) / kMost;
  for (std::size_t i = 0; i < cases.size(); i += step) {
    const Trial trial(cases[i].problem(), seed());
    const Outcome expected = reference(trial);
    for (const std::string& row : rows()) {
      if (!on_the_host(row) || row == "cpu/scalar") continue;
      for (const HostMode& mode : kHostModes)
        for (const Runner& runner : kRunners)
          for (const int threads : kThreadCounts)
            ASSERT_TRUE(equal(trial, expected, run_in(mode, trial, row, runner, threads)))
                << where(cases[i], row, threads, mode, runner);
    }
  }
}

}  // namespace
}  // namespace twinops::test
