// Element types: their names, their sizes, sets of them, and their DLPack codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dlpack/dlpack.h"
#include "numerics/float16.hpp"

namespace twinops {

enum class Type : std::uint8_t {
  float16,
  bfloat16,
  float32,
  float64,
  boolean,
  uint8,
  int32,
  uint32,
  int64,
  uint64
};
inline constexpr int kTypeCount = 10;

struct TypeRow {
  const char* name;
  std::uint8_t code;  // DLPack's
  std::uint8_t bits;
};
inline constexpr std::uint8_t kBoolCode = 6;  // kDLBool, which DLPack 0.6 does not name yet
inline constexpr TypeRow kTypes[kTypeCount] = {
    {"float16", kDLFloat, 16}, {"bfloat16", kDLBfloat, 16}, {"float32", kDLFloat, 32},
    {"float64", kDLFloat, 64}, {"bool", kBoolCode, 8},      {"uint8", kDLUInt, 8},
    {"int32", kDLInt, 32},     {"uint32", kDLUInt, 32},     {"int64", kDLInt, 64},
    {"uint64", kDLUInt, 64},
};
constexpr const char* name(Type type) { return kTypes[static_cast<int>(type)].name; }
constexpr std::size_t size_of(Type type) { return kTypes[static_cast<int>(type)].bits / 8u; }

// False if the library has no such type. bool is DLPack's own code of 8 bits.
inline bool from_dlpack(DLDataType type, Type& out) {
  for (int i = 0; i < kTypeCount; ++i) {
    if (kTypes[i].code != type.code || kTypes[i].bits != type.bits || type.lanes != 1) continue;
    out = static_cast<Type>(i);
    return true;
  }
  return false;
}
inline DLDataType to_dlpack(Type type) {
  const TypeRow& row = kTypes[static_cast<int>(type)];
  return {row.code, row.bits, 1};
}

class TypeSet {
 public:
  template <class... T>
  constexpr TypeSet(T... types) : bits_(((1u << static_cast<unsigned>(types)) | ... | 0u)) {}
  constexpr bool operator==(const TypeSet&) const = default;
  constexpr bool has(Type type) const { return bits_ >> static_cast<unsigned>(type) & 1u; }
  constexpr void add(Type type) { bits_ |= 1u << static_cast<unsigned>(type); }

 private:
  unsigned bits_;
};

inline constexpr TypeSet kFloatingTypes{Type::float16, Type::bfloat16, Type::float32,
                                        Type::float64};

// For an argument whose type is that of another: what may stand beside the other.
constexpr TypeSet same_type(Type other) { return {other}; }

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
inline constexpr Type kTypeOf = std::is_same_v<T, float16>    ? Type::float16
                                : std::is_same_v<T, bfloat16> ? Type::bfloat16
                                : std::is_same_v<T, float>    ? Type::float32
                                                              : Type::float64;

// Calls f with the tag of a floating type: the one place where a type at run time becomes a type in
// C++.
template <class F>
void with_floating_type(Type type, F&& f) {
  if (type == Type::float16) f(TypeTag<float16>{});
  if (type == Type::bfloat16) f(TypeTag<bfloat16>{});
  if (type == Type::float32) f(TypeTag<float>{});
  if (type == Type::float64) f(TypeTag<double>{});
}

}  // namespace twinops
