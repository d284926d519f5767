// The project's own sources, for tests that read them. TWINOPS_SOURCE_DIR names their folder where
// the tests were carried to another machine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace twinops::test {

namespace fs = std::filesystem;

inline fs::path source_folder() {
  const char* asked = std::getenv("TWINOPS_SOURCE_DIR");
  return asked != nullptr ? asked : TWINOPS_TEST_SOURCE_DIR;
}
inline bool is_source(const fs::path& path) {
  static const std::vector<std::string> kEndings = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"};
  const std::string ending = path.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}
inline std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

#define NEEDS_SOURCES \
  if (!fs::exists(source_folder() / "numerics")) GTEST_SKIP() << "the sources are not here"

}  // namespace twinops::test
