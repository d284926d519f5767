// Every operator has its part in every room, and a page that names all that its table names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/sources.hpp"
#include "twinops/twinops.h"

namespace twinops::test {
namespace {

using Names = std::vector<std::string>;

// The names that an operator's parts may have: its own, or that of a sibling with whom it shares a
// file: log_softmax_grad has parts in log_softmax, softmax_grad and softmax.
Names siblings(const std::string& op) {
  Names names = {op};
  if (op.starts_with("log_")) names.push_back(op.substr(4));
  for (const std::string& name : Names(names))
    if (name.ends_with("_grad")) names.push_back(name.substr(0, name.size() - 5));
  return names;
}

// Whether a file of that name lies in the folder, or in a family's folder in it.
bool stands_in(const std::string& folder, const std::string& name) {
  if (fs::exists(source_folder() / folder / name)) return true;
  for (const auto& entry : fs::directory_iterator(source_folder() / folder))
    if (entry.is_directory() && fs::exists(entry.path() / name)) return true;
  return false;
}

// Whoever knows an operator's name finds every part of it.
TEST(Stations, OfEveryOperator) {
  NEEDS_SOURCES;
  constexpr struct {
    const char *folder, *ending;
  } kStations[] = {{"operators", ".hpp"},   {"operators", ".cpp"},
                   {"kernels_cpu", ".cpp"}, {"kernels_cpu", "_reference.cpp"},
                   {"kernels_cuda", ".cu"}, {"tools/proof", "_cases.cpp"},
                   {"tests", "_test.cpp"},  {"docs/operators", ".md"}};
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) {
    const std::string op = twinops_operator_at(i)->name;
    for (const auto& station : kStations) {
      const Names names = siblings(op);
      EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                              [&](const std::string& name) {
                                return stands_in(station.folder, name + station.ending);
                              }))
          << station.folder << "/" << op << station.ending << " is missing";
    }
  }
}

// The pages of an operator and its siblings, its own first.
std::string pages_of(const std::string& op) {
  std::string text;
  for (const std::string& name : siblings(op))
    text += read(source_folder() / "docs" / "operators" / (name + ".md"));
  return text;
}

// The pages of an operator and its siblings name all that its table names.
TEST(Stations, DocumentsNameEveryArgumentAndAttribute) {
  NEEDS_SOURCES;
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) {
    const twinops_operator_info& op = *twinops_operator_at(i);
    const std::string text = pages_of(op.name);
    const auto expect_named = [&](const char* name) {
      EXPECT_NE(text.find("`" + std::string(name) + "`"), std::string::npos)
          << op.name << ": " << name;
    };
    for (std::size_t a = 0; a < op.argument_count; ++a) expect_named(op.arguments[a]->name);
    for (std::size_t a = 0; a < op.attribute_count; ++a)
      expect_named(op.attributes[a]->default_value.name);
  }
}

// What a page says of an attribute: its kind and its default, from "| `axis` | int | -1 | ...".
Names row_of(const std::string& pages, const std::string& attribute) {
  Names cells;
  const std::size_t begin = pages.find("\n| `" + attribute + "` | ");
  if (begin == std::string::npos) return cells;
  std::istringstream line(pages.substr(begin + 1, pages.find('\n', begin + 1) - begin - 1));
  for (std::string cell; std::getline(line, cell, '|');) {
    std::erase(cell, ' ');
    std::erase(cell, '`');
    cells.push_back(cell);
  }
  return cells;  // "", the name, kind, default, text
}
bool is_default(const twinops_attribute& a, const std::string& text) {
  switch (a.kind) {
    case TWINOPS_BOOL:
      return text == (a.int_value != 0 ? "true" : "false");
    case TWINOPS_INT:
      return text == std::to_string(a.int_value);
    case TWINOPS_FLOAT:
      return std::strtod(text.c_str(), nullptr) == a.float_value;
    default:
      return text == (*a.string_value == '\0' ? "\"\"" : a.string_value);
  }
}

TEST(Stations, DocumentsHaveEveryAttributesKindAndDefault) {
  NEEDS_SOURCES;
  constexpr const char* kKinds[] = {"bool", "int", "float", "string"};
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) {
    const twinops_operator_info& op = *twinops_operator_at(i);
    const std::string pages = pages_of(op.name);
    for (std::size_t k = 0; k < op.attribute_count; ++k) {
      const twinops_attribute& a = op.attributes[k]->default_value;
      const Names row = row_of(pages, a.name);
      ASSERT_GE(row.size(), 5u) << op.name << ": no table has a row of " << a.name;
      EXPECT_EQ(row[2], kKinds[a.kind]) << op.name << ": " << a.name;
      EXPECT_TRUE(is_default(a, row[3])) << op.name << ": " << a.name << ": " << row[3];
    }
  }
}

}  // namespace
}  // namespace twinops::test
