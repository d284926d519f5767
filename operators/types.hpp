// Element types: their names, their sizes, sets of them, and their DLPack codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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

const char* name(Type type);
std::size_t size_of(Type type);

// "float16", "int32[2 lanes]", "code 5, 16 bits": for messages, whatever the code.
std::string describe(DLDataType type);
// False if the library has no such type. bool is DLPack's own code of 8 bits.
bool from_dlpack(DLDataType type, Type& out);
DLDataType to_dlpack(Type type);

class TypeSet {
 public:
  template <class... T>
  constexpr TypeSet(T... types) : bits_(((1u << static_cast<unsigned>(types)) | ... | 0u)) {}
  constexpr bool has(Type type) const { return bits_ >> static_cast<unsigned>(type) & 1u; }
  std::string describe() const;  // "float16, bfloat16"

 private:
  unsigned bits_;
};

inline constexpr TypeSet kFloatingTypes{Type::float16, Type::bfloat16, Type::float32,
                                        Type::float64};

template <class T>
struct TypeTag {
  using type = T;
};

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
