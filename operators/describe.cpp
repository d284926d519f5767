#include "operators/describe.hpp"

#include <charconv>

#include "operators/names.hpp"

namespace twinops {
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

std::string describe(Device device) {
  return device.backend == Backend::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

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

std::string describe(TypeSet types) {
  std::string text;
  for (int i = 0; i < kTypeCount; ++i)
    if (types.has(static_cast<Type>(i))) add_name(text, kTypes[i].name);
  return text;
}

std::string describe(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string describe_shape(const Tensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.rank; ++i)
    text += (i != 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

}  // namespace twinops
