// What every call must keep, whatever it is: the process lives, a refusal has written nothing, no
// byte changes but elements of outputs, and every row gives the reference's bits, words and status.
#pragma once

#include <string>

#include "tests/fuzz/call.hpp"

namespace fuzz {

struct Counts {
  long calls = 0, accepted = 0, refused = 0, failed = 0, too_large = 0;
};

// What is wrong; empty if nothing is. Rows: of all, or of the device.
std::string check(const std::vector<std::uint8_t>& input, Counts& counts);

}  // namespace fuzz
