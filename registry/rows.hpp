// The kernel rows of this build, best first, the scalar reference last. Every operator has a kernel
// in every row, so a row that is added is chosen, tested and timed for all of them.
#pragma once

#include <span>
#include <string>

#include "operators/tensor.hpp"

namespace twinops {

struct Row {
  Backend backend;
  const char* isa;           // "avx2", "scalar"; of the CUDA row "cuda"
  bool (*usable)();          // by this machine
  std::string (*why_not)();  // why it is not usable; empty if it is
};
std::span<const Row> rows();

// "cpu/avx2", "cuda/sm_90": what reports say and calls may ask for. The CUDA row is named by the
// device, or "cuda" alone where there is none. The text is kept for good.
const char* row_name(std::size_t row, int device_index = 0);

// Which row a call takes.
struct Choice {
  std::size_t row;
  const char* name;      // row_name's
  std::string fallback;  // why what the environment asked for was not to be had; else empty
};

// The row for tensors on `device`. `asked`: nullptr or empty for the best, else a row's name
// ("cpu/avx2"), or a backend's, which must be had. Throws Error(unsupported) where no row can run,
// Error(invalid_argument) for a name that no row has.
Choice choose_row(Device device, const char* asked);

// A line a row: the one chosen, and why each better one was passed over.
std::string explain_rows(Device device, const char* asked);

}  // namespace twinops
