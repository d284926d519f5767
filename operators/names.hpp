// Names in tables of a few.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace twinops {

// Most of them differ in the first letter.
inline bool same_name(const char* a, const char* b) { return *a == *b && std::strcmp(a, b) == 0; }

// One more of "a, b, c", for messages.
inline void add_name(std::string& names, std::string_view name) {
  if (!names.empty()) names += ", ";
  names += name;
}

}  // namespace twinops
