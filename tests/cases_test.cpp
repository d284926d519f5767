// The lists of tools/proof themselves: what golden files and reports say of a case, they say of
// one.
#include <gtest/gtest.h>

#include <set>

#include "tools/proof/problem.hpp"

namespace twinops::test {
namespace {

TEST(Cases, HaveNamesOfTheirOwn) {
  for (const proof::OperatorCases& table : proof::operator_cases()) {
    std::set<std::pair<std::string, std::string>> names;
    for (const proof::Case& c : table.make())
      EXPECT_TRUE(names.insert({c.type, c.name}).second)
          << table.op << ", " << c.type << ": two cases are named '" << c.name << "'";
    EXPECT_GT(names.size(), 100u) << table.op;
  }
}

// A golden file has a line a case: type, digest, and the name to the line's end.
TEST(Cases, HaveNamesThatFitALine) {
  for (const proof::OperatorCases& table : proof::operator_cases())
    for (const proof::Case& c : table.make()) {
      EXPECT_EQ(c.type.find_first_of(" \t\r\n"), std::string::npos) << c.type;
      EXPECT_TRUE(!c.name.empty() && c.name.find_first_of("\t\r\n") == std::string::npos &&
                  c.name.front() != ' ' && c.name.back() != ' ')
          << table.op << ", " << c.type << ": '" << c.name << "'";
    }
}

// Each is a call of the operator whose list it is in: names are unique for an operator.
TEST(Cases, AreOfTheirOperator) {
  for (const proof::OperatorCases& table : proof::operator_cases())
    for (const proof::Case& c : table.make())
      if (c.elements <= 4096) {
        EXPECT_EQ(c.problem().op, table.op) << c.name;
      }
}

}  // namespace
}  // namespace twinops::test
