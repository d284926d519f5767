// What is proved, as plain data: a Problem is one call of an operator, a Case is a named problem,
// and every operator has a list of cases. The cross-check, the tests and the benchmarks all walk
// these lists; none of them knows an operator by name.
//
// To add an operator: write tools/proof/<operator>_cases.cpp with a function
// `std::vector<Case> <operator>_cases()`, declare it and give it a line in the table of cases.cpp,
// and name the file in CMakeLists.txt. A case is built like this:
//
//   cases.push_back({"rows of 1000", "float16", 3000, [] {
//     const TensorSpec x{twinops::kFloat16, {3, 1000}};
//     return Problem("softmax")
//         .input("x", {x}, whole_range())
//         .output("y", {x})                       // or {in_place(x, "x")}
//         .attribute("axis", 1);
//   }});
//
// It names any number of inputs and outputs of any DLPack type. An output that is read before it is
// written (a counter, a flag that is only ever set) gets a Fill as well; without one its memory
// holds 0xca, so that what is not written is seen. Memory is made later, by a Trial (trial.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "twinops/twinops.hpp"

namespace proof {

inline std::size_t size_of(DLDataType type) { return type.bits / 8u * type.lanes; }

// A tensor without memory.
struct TensorSpec {
  DLDataType type;
  std::vector<std::int64_t> shape;         // {} is a scalar
  std::vector<std::int64_t> strides = {};  // in elements, of any sign; {}: row-major, no gaps
  std::int64_t offset = 0;                 // its memory begins this many elements beyond 64 bytes
  std::optional<std::string> over = {};    // it is the memory of this argument's same member
  bool behind = false;                     // its memory begins where that of the tensor before ends
};
// `tensor` over the memory of the member of the same index of `argument`.
inline TensorSpec in_place(TensorSpec tensor, std::string argument) {
  tensor.over = std::move(argument);
  return tensor;
}
inline std::vector<TensorSpec> in_place(std::vector<TensorSpec> list, const std::string& argument) {
  for (TensorSpec& tensor : list) tensor.over = argument;
  return list;
}

// The memory of one tensor: from its lowest element to its highest, gaps of strides included.
struct Memory {
  void* data;
  DLDataType type;
  std::int64_t elements;
  std::size_t member;  // of a list; else 0
  std::uint64_t seed;  // another one for every tensor of a problem
};
// Makes the values of a tensor, a pure function of what Memory says. values.hpp has a collection.
using Fill = std::function<void(const Memory&)>;

struct Argument {
  std::string name;
  bool is_output;
  std::vector<TensorSpec> tensors;  // a list's members; else one
  Fill fill;                        // empty: 0xca throughout
};

struct Attribute {
  std::string name;
  std::variant<bool, std::int64_t, double, std::string> value;
};

struct Problem {
  explicit Problem(std::string op_) : op(std::move(op_)) {}

  Problem& input(std::string name, std::vector<TensorSpec> tensors, Fill fill) {
    arguments.push_back({std::move(name), false, std::move(tensors), std::move(fill)});
    return *this;
  }
  Problem& output(std::string name, std::vector<TensorSpec> tensors, Fill fill = {}) {
    arguments.push_back({std::move(name), true, std::move(tensors), std::move(fill)});
    return *this;
  }
  Problem& attribute(std::string name, bool value) { return set(std::move(name), value); }
  Problem& attribute(std::string name, int value) {
    return set(std::move(name), std::int64_t{value});
  }
  Problem& attribute(std::string name, std::int64_t value) { return set(std::move(name), value); }
  Problem& attribute(std::string name, double value) { return set(std::move(name), value); }
  Problem& attribute(std::string name, const char* value) {
    return set(std::move(name), std::string(value));
  }

  std::string op;
  std::vector<Argument> arguments;
  std::vector<Attribute> attributes;
  std::size_t guard = 64;  // bytes of 0xca between tensors, at least
  bool one_array = false;  // an output wholly over an input comes as the input's own array

 private:
  template <class V>
  Problem& set(std::string name, V value) {
    attributes.push_back({std::move(name), std::move(value)});
    return *this;
  }
};

struct Case {
  std::string name;       // unique for its operator and type
  std::string type;       // the line it is reported under: "float16", or "mixed"
  std::int64_t elements;  // that the operator walks
  std::function<Problem()> problem;
};

struct OperatorCases {
  const char* op;
  std::vector<Case> (*make)();
};
std::span<const OperatorCases> operator_cases();

// The floating types, which most operators take.
inline constexpr DLDataType kFloatingTypes[] = {twinops::kFloat16, twinops::kBfloat16,
                                                twinops::kFloat32, twinops::kFloat64};

}  // namespace proof
