// The twinops command: crosscheck finds the twins equal, and finds a fault that is put in; info and
// explain say what the library says.
#include "tests/support/twinops_command.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

const std::string kFew = "crosscheck --max-elements 2000 ";

TEST(Crosscheck, FindsTheTwinsEqual) {
  const Json json;
  const Printed printed = run_program(command() + kFew + "--json '" + json.path + "'");
  EXPECT_EQ(printed.status, 0) << printed.text;
  EXPECT_TRUE(contains(last_line(printed.text), " passed, 0 failed")) << printed.text;
  EXPECT_GT(json.number("passed"), 1000);
  EXPECT_EQ(json.number("failed"), 0);
  EXPECT_EQ(json.number("seed"), 1);
  EXPECT_TRUE(contains(json.text(), "\"version\": \"" + std::string(twinops_version()) + "\""));
  const std::string results = json.text();
  for (std::size_t i = 0; i < twinops_operator_count(); ++i)
    for (const std::string& row : available_rows()) {
      const std::string op = "{\"operator\": \"" + std::string(twinops_operator_at(i)->name) + "\"";
      bool found = false;  // a result of this operator on this row
      for (std::size_t at = results.find(op); at != std::string::npos && !found;
           at = results.find(op, at + 1))
        found = contains(results.substr(at, results.find('}', at) - at), "\"" + row + "\"");
      EXPECT_TRUE(found) << op << " on " << row;
    }
}

// One wrong bit in any row must be found: exit status 1, the row and the difference named.
TEST(Crosscheck, FindsAFaultInEveryRow) {
  for (const std::string& row : available_rows()) {
    if (row == "cpu/scalar") continue;  // the reference itself
    const Json json;
    const Printed printed = run_program("TWINOPS_CROSSCHECK_FAULT=" + row + " " + command() + kFew +
                                        "--op check_finite_and_unscale --json '" + json.path + "'");
    EXPECT_EQ(printed.status, 1) << printed.text;
    EXPECT_TRUE(contains(last_line(printed.text), " passed, 1 failed")) << printed.text;
    EXPECT_TRUE(contains(printed.text, " expected, 0x")) << printed.text;
    EXPECT_EQ(json.number("failed"), 1);
    EXPECT_TRUE(contains(json.text(), "\"row\": \"" + row + "\""));
  }
}

TEST(Crosscheck, RefusesAFaultThatItWouldNotMeet) {
  const Printed printed = run_program("TWINOPS_CROSSCHECK_FAULT=cpu/mmx " + command() + kFew);
  EXPECT_EQ(printed.status, 2) << printed.text;
}

TEST(Crosscheck, SelectsWhatIsAskedFor) {
  const Json json;
  const Printed printed = run_program(
      command() + kFew +
      "--op update_loss_scaling --dtype float16 --row cpu/sse2 --threads 2 --seed 5 --json '" +
      json.path + "'");
#if defined(__x86_64__)
  EXPECT_EQ(printed.status, 0) << printed.text;
  EXPECT_FALSE(contains(json.text(), "check_finite_and_unscale"));
  EXPECT_FALSE(contains(json.text(), "float32"));
  EXPECT_FALSE(contains(json.text(), "cpu/avx"));
  EXPECT_TRUE(contains(printed.text, "seed 5"));
#endif
}

TEST(Crosscheck, SelectsCasesByName) {
  const Printed all = run_program(command() + "crosscheck --op softmax --list");
  const Printed some = run_program(command() + "crosscheck --op softmax --case 'masked' --list");
  ASSERT_EQ(some.status, 0) << some.text;
  std::istringstream lines(all.text);
  std::string expected;
  for (std::string line; std::getline(lines, line);)
    if (contains(line, "masked")) expected += line + '\n';
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(some.text, expected);
}

TEST(Crosscheck, RefusesWhatThereIsNot) {
  for (const std::string wrong :
       {"--op nothing", "--dtype float8", "--row cpu/mmx", "--threads -1", "--seed", "--nothing",
        "--max-elements x", "--case 'no such case'", "--case masked --record a",
        "--json /dev/null/a.json", "--record /dev/null/a"}) {
    const Printed printed = run_program(command() + "crosscheck " + wrong);
    EXPECT_EQ(printed.status, 2) << wrong << ": " << printed.text;
    EXPECT_TRUE(contains(printed.text, "twinops: ")) << printed.text;
    EXPECT_TRUE(contains(printed.text, "(twinops crosscheck --help tells more)")) << printed.text;
  }
  const Printed printed = run_program(command() + "nothing");
  EXPECT_EQ(printed.status, 2);
  EXPECT_TRUE(contains(printed.text, "(twinops --help tells more)")) << printed.text;
}

// A row that is not known and a file that can be written: nothing is left of it.
TEST(Crosscheck, LeavesNoFileOfWorkThatDidNotBegin) {
  const Json json;
  EXPECT_EQ(
      run_program(command() + kFew + "--json '" + json.path + "' --record /dev/null/a").status, 2);
  EXPECT_FALSE(json.is_there());
}

TEST(Info, NamesRowsOperatorsArgumentsAndAttributes) {
  const Printed printed = run_program(command() + "info");
  EXPECT_EQ(printed.status, 0);
  for (std::size_t i = 0; i < twinops_row_count(); ++i)
    EXPECT_TRUE(contains(printed.text, twinops_row_at(i)->name));
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) {
    const twinops_operator_info& op = *twinops_operator_at(i);
    EXPECT_TRUE(contains(printed.text, op.doc));
    for (std::size_t a = 0; a < op.argument_count; ++a)
      EXPECT_TRUE(contains(printed.text, op.arguments[a]->doc));
    for (std::size_t a = 0; a < op.attribute_count; ++a)
      EXPECT_TRUE(contains(printed.text, op.attributes[a]->doc));
  }
}

TEST(Info, SaysThatItsTextIsLost) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_EQ(run_program(command() + "info > /dev/full").status, 1);
}

TEST(ExplainCommand, SaysWhatTheLibrarySays) {
  const Printed printed = run_program(command() + "explain");
  EXPECT_EQ(printed.status, 0);
  EXPECT_TRUE(contains(printed.text, explain())) << printed.text;
}

TEST(ExplainCommand, NamesTheCudaKernelOfAShape) {
  const auto explained = [](const std::string& options) {
    const Printed printed = run_program(command() + "explain " + options);
    EXPECT_EQ(printed.status, 0) << options;
    return printed.text;
  };
  const std::string text = explained("--op softmax --shape 64x50257 --dtype bfloat16");
  EXPECT_TRUE(contains(text, "softmax of 64 rows of 50257 elements, bfloat16 to bfloat16")) << text;
  EXPECT_TRUE(contains(text, "-> cluster_pairs")) << text;
  EXPECT_TRUE(contains(explained("--op softmax --shape 2x3x320 --dtype float16"),
                       "8 lanes a row, 5 vectors of 16 bytes each"));
  EXPECT_TRUE(contains(explained("--op softmax --shape 64x50257 --dtype bfloat16 --masked"),
                       "-> cluster "));
  EXPECT_TRUE(
      contains(explained("--op log_softmax_grad --shape 9x77 --dtype float16"), "-> staged "));
  EXPECT_TRUE(contains(explained("--op softmax --shape 4096 --dtype float32 --out-dtype float16"),
                       "-> cluster "));
}

TEST(ExplainCommand, RefusesWhatItDoesNotKnow) {
  for (const char* options :
       {"--op softmax --dtype float16", "--op softmax --shape 4y --dtype float16",
        "--op softmax --shape 4x0 --dtype float16", "--op dropout --shape 4 --dtype float16",
        "--op softmax --shape 4 --dtype int32", "--shape 4", "--op",
        "--op softmax --shape 4 --dtype float64 --out-dtype float32", "--shapes 4"}) {
    const Printed printed = run_program(command() + "explain " + options);
    EXPECT_EQ(printed.status, 2) << options;
    EXPECT_TRUE(contains(printed.text, "twinops: ")) << printed.text;
  }
}

TEST(ExplainCommand, TellsOfSettingsThatAreWrong) {
  const Printed printed = run_program("TWINOPS_ISA=mmx " + command() + "explain");
  EXPECT_NE(printed.status, 0);
  EXPECT_TRUE(contains(printed.text, "TWINOPS_ISA: expected one of ")) << printed.text;
}

}  // namespace
}  // namespace twinops::test
