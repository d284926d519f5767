// What the environment asks for. Read once, at the first call.
#pragma once

#include <string>

namespace twinops {

struct Settings {
  std::string backend;  // TWINOPS_BACKEND: "cpu", "cuda", or empty
  std::string isa;      // TWINOPS_ISA: an instruction set of this build, "scalar", or empty
  int threads = 0;      // TWINOPS_THREADS: 1 or more, or 0
};

// Throws Error(invalid_argument) at every call if a variable holds what it must not.
const Settings& settings();

}  // namespace twinops
