// What an operator says of itself: its arguments, attributes and documentation. A host framework
// can enumerate these; the registry checks every call against them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "operators/types.hpp"

namespace twinops {

class Call;  // operators/call.hpp

struct ArgumentInfo {
  enum class Direction { input, output };
  enum class Form { tensor, list };

  const char* name;
  Direction direction;
  Form form;
  bool required;
  TypeSet types;
  const char* doc;  // shape, meaning, what it may share memory with
  // Where the types that a call may have follow from that of another argument: its name, and the
  // types beside one of it. Only messages need it; the operator itself checks.
  const char* beside = nullptr;
  TypeSet (*types_beside)(Type) = nullptr;
};

struct AttributeValue {
  enum class Kind { boolean, integer, real, text };

  Kind kind;
  std::int64_t integer;  // also the boolean
  double real;
  const char* text;

  static constexpr AttributeValue of(bool v) { return {Kind::boolean, v, 0, ""}; }
  static constexpr AttributeValue of(std::int64_t v) { return {Kind::integer, v, 0, ""}; }
  static constexpr AttributeValue of(double v) { return {Kind::real, 0, v, ""}; }
  static constexpr AttributeValue of(const char* v) { return {Kind::text, 0, 0, v}; }
};

struct AttributeInfo {
  const char* name;
  AttributeValue default_value;  // its kind is the attribute's kind
  const char* choices;           // of a text: the words that are allowed, "a|b"; else nullptr
  const char* doc;
};

// What one operator has at most, so that a call needs no memory of its own for them.
inline constexpr std::size_t kMostArguments = 12, kMostAttributes = 24;

struct OperatorInfo {
  const char* name;
  const char* doc;
  std::span<const ArgumentInfo> arguments;
  std::span<const AttributeInfo> attributes;
};

// Two tables as one.
template <class T, std::size_t A, std::size_t B>
constexpr std::array<T, A + B> join(const std::array<T, A>& a, const std::array<T, B>& b) {
  return [&]<std::size_t... I, std::size_t... J>(std::index_sequence<I...>,
                                                 std::index_sequence<J...>) {
    return std::array<T, A + B>{a[I]..., b[J]...};
  }
  (std::make_index_sequence<A>(), std::make_index_sequence<B>());
}

}  // namespace twinops
