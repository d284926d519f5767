// What every call must keep, whatever it is: the process lives, a refusal has written nothing, no
// byte changes but elements of outputs, and every row gives the reference's bits, words and status.
#pragma once

#include <string>

#include "tests/fuzz/call.hpp"

namespace fuzz {

struct Counts {
  long calls = 0, accepted = 0, refused = 0, failed = 0, too_large = 0;
};

// The rows that are compared with the reference begin so. To be set before the first check().
inline const char* rows_begin_with = "";

// What is wrong; empty if nothing is.
std::string check(const std::vector<std::uint8_t>& input, Counts& counts);

}  // namespace fuzz
