// What twinops refuses, as the exceptions that Paddle raises for the same reasons: ValueError,
// NotImplementedError, MemoryError, RuntimeError.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "twinops/twinops.h"

namespace twinops::paddle_host {

struct Refusal : std::runtime_error {
  Refusal(twinops_status s, const std::string& message) : std::runtime_error(message), status(s) {}
  twinops_status status;
};

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Refusal(TWINOPS_INVALID_ARGUMENT, message.str());
}

inline void check(twinops_status status) {
  if (status != TWINOPS_OK) throw Refusal(status, twinops_last_error());
}

}  // namespace twinops::paddle_host
