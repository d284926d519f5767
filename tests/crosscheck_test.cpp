// The twinops command: crosscheck finds the twins equal, and finds a fault that is put in; info and
// explain say what the library says. TWINOPS_COMMAND names another command than the build's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/run_program.hpp"
#include "twinops/twinops.hpp"

namespace twinops::test {
namespace {

std::string command() {
  const char* asked = std::getenv("TWINOPS_COMMAND");
  return "'" + std::string(asked != nullptr ? asked : TWINOPS_TEST_COMMAND) + "' ";
}
const std::string kFew = "crosscheck --max-elements 2000 ";

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  return end == std::string::npos ? "" : text.substr(text.rfind('\n', end) + 1, end + 1);
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The file that --json writes, read as far as these tests need it.
struct Json {
  std::string path = testing::TempDir() + "crosscheck" + std::to_string(getpid()) + ".json";
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  long number(const std::string& key) const {  // the first of its name
    const std::string t = text(), name = "\"" + key + "\": ";
    const std::size_t at = t.find(name);
    return at == std::string::npos ? -1 : std::atol(t.c_str() + at + name.size());
  }
  ~Json() { std::remove(path.c_str()); }
};

TEST(Crosscheck, FindsTheTwinsEqual) {
  const Json json;
  const Printed printed = run_program(command() + kFew + "--json '" + json.path + "'");
  EXPECT_EQ(printed.status, 0) << printed.text;
  EXPECT_TRUE(contains(last_line(printed.text), " passed, 0 failed")) << printed.text;
  EXPECT_GT(json.number("passed"), 1000);
  EXPECT_EQ(json.number("failed"), 0);
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

TEST(Crosscheck, RefusesWhatThereIsNot) {
  for (const std::string wrong : {"--op nothing", "--dtype float8", "--row cpu/mmx", "--threads -1",
                                  "--seed", "--nothing", "--max-elements x"}) {
    const Printed printed = run_program(command() + "crosscheck " + wrong);
    EXPECT_EQ(printed.status, 2) << wrong << ": " << printed.text;
    EXPECT_TRUE(contains(printed.text, "twinops: ")) << printed.text;
  }
  EXPECT_EQ(run_program(command() + "nothing").status, 2);
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

TEST(ExplainCommand, SaysWhatTheLibrarySays) {
  const Printed printed = run_program(command() + "explain");
  EXPECT_EQ(printed.status, 0);
  EXPECT_TRUE(contains(printed.text, explain())) << printed.text;
}

TEST(ExplainCommand, TellsOfSettingsThatAreWrong) {
  const Printed printed = run_program("TWINOPS_ISA=mmx " + command() + "explain");
  EXPECT_NE(printed.status, 0);
  EXPECT_TRUE(contains(printed.text, "TWINOPS_ISA: expected one of ")) << printed.text;
}

}  // namespace
}  // namespace twinops::test
