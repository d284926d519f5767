// How ONNX Runtime sees an operator of twinops: the inputs and outputs of a node, worked out from
// the library's operator table.
#pragma once

#include <string>
#include <vector>

#include "hosts/onnxruntime/abi.hpp"
#include "twinops/twinops.h"

namespace twinops::ort {

struct Input {
  const twinops_argument_info* argument;  // nullptr: only its shape is used
};

struct Output {
  // The shape: that of the input `like`; its last dimension alone; the same with a last dimension
  // of an attribute's size.
  enum class Shape { same, last, resized };

  const twinops_argument_info* argument;
  size_t like = 0;  // the input
  Shape shape = Shape::same;
  ElementType type = kUndefined;  // undefined: that of `like`
  const char* size = nullptr;     // of a resized output: the attribute
  std::string type_attribute{};   // that asks for another type by its name; "" if there is none

  // The type of that name, or `like` for "same"; throws std::invalid_argument for another name.
  ElementType type_of(const std::string& name, ElementType like) const;

  // A mask with a bit for each element of the input that it is like.
  bool is_bits() const { return argument->is_required == 0 && type == kUint32; }
};

// Lists are variadic and come last, in the table's order else. An operator that makes tensors of
// nothing has one more input, the first: its outputs have that one's shape.
struct Signature {
  explicit Signature(const twinops_operator_info& info);

  const twinops_operator_info& info;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  size_t find_input(const char* name) const;  // inputs.size() if there is none
  // Whether every node has the input.
  bool is_there(size_t input) const {
    const twinops_argument_info* argument = inputs[input].argument;
    return argument == nullptr || argument->is_required != 0;
  }
};

// Types and shapes of a node's outputs, told while a graph is loaded. A mask of bits has a size
// only where that of the input is known. Where the runtime does not check which outputs the node
// has, those that it may leave out are not told.
void infer_shapes(const Api& api, const Signature& signature, const ShapeInferContext& context,
                  bool checks_outputs);

ElementType to_onnx(DLDataType type);    // kUndefined for one that it has not
DLDataType to_dlpack(ElementType type);  // bits 0 for one that twinops has not

}  // namespace twinops::ort
