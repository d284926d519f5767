#include "operators/types.hpp"

#include <charconv>

#include "operators/names.hpp"

namespace twinops {
DLDataType to_dlpack(Type type) {
  const TypeRow& row = kTypes[static_cast<int>(type)];
  return {row.code, row.bits, 1};
}

std::string describe(DLDataType type) {
  const std::uint16_t lanes = type.lanes;
  type.lanes = 1;
  Type known;
  std::string text = from_dlpack(type, known) ? name(known)
                                              : "code " + std::to_string(type.code) + ", " +
                                                    std::to_string(type.bits) + " bits";
  if (lanes != 1) text += " (" + std::to_string(lanes) + " lanes)";
  return text;
}

std::string describe(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string TypeSet::describe() const {
  std::string text;
  for (int i = 0; i < kTypeCount; ++i)
    if (has(static_cast<Type>(i))) add_name(text, kTypes[i].name);
  return text;
}

}  // namespace twinops
