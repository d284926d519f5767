// The one exception of the library. It stops at the C ABI, which turns it into a status and a
// message.
#pragma once

#include <stdexcept>
#include <string>

namespace twinops {

enum class Status {
  ok = 0,
  invalid_argument = 1,  // the caller's mistake; nothing was written
  unsupported = 2,       // no kernel of this build or machine can do it; nothing was written
  device_error = 3,      // CUDA refused or failed; the message carries its words
  out_of_memory = 4,
  internal = 5,
};

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status(status) {}
  const Status status;
};

}  // namespace twinops
