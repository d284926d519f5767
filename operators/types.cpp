#include "operators/types.hpp"

#include <charconv>

#include "operators/names.hpp"

namespace twinops {
DLDataType to_dlpack(Type type) {
  const TypeRow& row = kTypes[static_cast<int>(type)];
  return {row.code, row.bits, 1};
}

namespace {

// What others call a type of this code; nullptr if they have none that its bits complete.
const char* word_of(std::uint8_t code) {
  constexpr std::uint8_t kComplex = 5;  // kDLComplex, which DLPack 0.2 does not name yet
  switch (code) {
    case kDLInt:
      return "int";
    case kDLUInt:
      return "uint";
    case kDLFloat:
      return "float";
    case kDLBfloat:
      return "bfloat";
    case kComplex:
      return "complex";
    default:
      return nullptr;
  }
}

}  // namespace

std::string describe(DLDataType type) {
  const std::uint16_t lanes = type.lanes;
  type.lanes = 1;
  Type known;
  const std::string bits = std::to_string(type.bits);
  std::string text;
  if (from_dlpack(type, known))
    text = name(known);
  else if (const char* word = word_of(type.code))
    text = word + bits;
  else
    text = "code " + std::to_string(type.code) + ", " + bits + " bits";
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
