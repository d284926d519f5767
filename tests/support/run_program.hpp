// Runs a command line and takes what it prints.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace twinops::test {

struct Printed {
  int status = -1;   // of exit; -1 if it did not come to that
  std::string text;  // stdout, then stderr as it came
};

inline Printed run_program(const std::string& command) {
  Printed printed;
  FILE* out = popen((command + " 2>&1").c_str(), "r");
  if (out == nullptr) return printed;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), out)) != 0;)
    printed.text.append(buffer.data(), n);
  const int status = pclose(out);
  if (WIFEXITED(status)) printed.status = WEXITSTATUS(status);
  return printed;
}

}  // namespace twinops::test
