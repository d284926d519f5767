#include "operators/types.hpp"

namespace twinops {
namespace {

struct Row {
  const char* name;
  std::uint8_t code;
  std::uint8_t bits;
};
constexpr std::uint8_t kBool = 6;  // kDLBool, which DLPack 0.6 does not name yet
constexpr Row kRows[kTypeCount] = {
    {"float16", kDLFloat, 16}, {"bfloat16", kDLBfloat, 16}, {"float32", kDLFloat, 32},
    {"float64", kDLFloat, 64}, {"bool", kBool, 8},          {"uint8", kDLUInt, 8},
    {"int32", kDLInt, 32},     {"uint32", kDLUInt, 32},     {"int64", kDLInt, 64},
    {"uint64", kDLUInt, 64},
};
const Row& row(Type type) { return kRows[static_cast<int>(type)]; }

}  // namespace

const char* name(Type type) { return row(type).name; }
std::size_t size_of(Type type) { return row(type).bits / 8u; }

bool from_dlpack(DLDataType type, Type& out) {
  for (int i = 0; i < kTypeCount; ++i) {
    if (kRows[i].code != type.code || kRows[i].bits != type.bits || type.lanes != 1) continue;
    out = static_cast<Type>(i);
    return true;
  }
  return false;
}

DLDataType to_dlpack(Type type) { return {row(type).code, row(type).bits, 1}; }

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

std::string TypeSet::describe() const {
  std::string text;
  for (int i = 0; i < kTypeCount; ++i)
    if (has(static_cast<Type>(i))) text += (text.empty() ? "" : ", ") + std::string(kRows[i].name);
  return text;
}

}  // namespace twinops
