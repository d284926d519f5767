// Names in tables of a few: most of them differ in the first letter.
#pragma once

#include <cstring>

namespace twinops {

inline bool same_name(const char* a, const char* b) { return *a == *b && std::strcmp(a, b) == 0; }

}  // namespace twinops
