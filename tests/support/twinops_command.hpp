// The twinops command as a program that is run: its text, its exit status, the file of --json.
// TWINOPS_COMMAND names another command than the build's.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/run_program.hpp"

namespace twinops::test {

inline std::string command() {
  const char* asked = std::getenv("TWINOPS_COMMAND");
  return "'" + std::string(asked != nullptr ? asked : TWINOPS_TEST_COMMAND) + "' ";
}
inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  return end == std::string::npos ? "" : text.substr(text.rfind('\n', end) + 1, end + 1);
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A file of this test's own, which goes with it.
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const std::string& ending)
      : path(testing::TempDir() + "crosscheck" + std::to_string(getpid()) + ending) {}
  ~TemporaryFile() { std::remove(path.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  bool is_there() const { return access(path.c_str(), F_OK) == 0; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
};

// The file that --json writes, read as far as these tests need it.
struct Json : TemporaryFile {
  Json() : TemporaryFile(".json") {}
  long number(const std::string& key) const {  // the first of its name
    const std::string t = text(), name = "\"" + key + "\": ";
    const std::size_t at = t.find(name);
    return at == std::string::npos ? -1 : std::atol(t.c_str() + at + name.size());
  }
};

}  // namespace twinops::test
