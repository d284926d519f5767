// How PyTorch sees an operator of twinops: the arguments and results of a custom operator, worked
// out from the library's operator table. Knows no header of PyTorch's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "twinops/twinops.h"

namespace twinops::torch_host {

// A tensor, a tensor that may be None, or a list of tensors, in the order of the schema.
struct Operand {
  const twinops_argument_info* argument;  // nullptr: only its shape and device are used
  std::string name;
  bool is_written = false;
  // The output that is this tensor as well, of an operator that works in place.
  const twinops_argument_info* also = nullptr;

  bool is_list() const { return argument != nullptr && argument->is_list != 0; }
  bool is_optional() const { return argument != nullptr && argument->is_required == 0; }
};

struct Attribute {
  std::string name;
  twinops_attribute preset;                      // its kind and default value
  const twinops_attribute_info* info = nullptr;  // nullptr: the adapter's own, not passed on

  bool is_size() const { return info == nullptr && preset.kind == TWINOPS_INT; }
  // Whether it has its own place in the schema even of an operator that takes a text.
  bool is_apart() const { return is_size() || preset.kind == TWINOPS_FLOAT; }
};

// A new tensor that a functional operator gives.
struct Result {
  // The shape of the operand `like`; that in row-major order without gaps; that with a last
  // dimension of another size; its last dimension.
  enum class Shape { like, dense, last_dimension, row };

  const twinops_argument_info* argument;
  int like = 0;
  Shape shape = Shape::like;
  DLDataType type{};        // bits 0: the type of `like`
  int size_attribute = -1;  // of last_dimension: the attribute that is its size
  // The attribute that names the type: "same" is the type above; of a result that may be left out,
  // "" leaves it out, and "uint32" is a mask with a bit for each element of `like`.
  int type_attribute = -1;

  bool is_optional() const { return argument->is_required == 0; }
};

struct Signature {
  const twinops_operator_info* info = nullptr;
  std::string name;    // PyTorch's, "softmax", "softmax.out", "update_loss_scaling_"
  std::string schema;  // "softmax(Tensor x, *, ...) -> Tensor"
  std::vector<Operand> operands;
  std::vector<Attribute> attributes;  // behind the operands in the schema, before `outputs`
  std::vector<Operand> outputs;       // of an overload "out": last in the schema
  std::vector<Result> results;
  // All attributes but floats and sizes come as one text, "axis=0;causal=True", which names those
  // that are not as preset: PyTorch's Python asks for each argument of a schema at each call.
  // (Python takes longer to write a float than to give it.)
  bool takes_text = false;
};

// The operator as PyTorch's operators: one that gives new tensors; the same again under a name with
// an underscore before it; and an overload "out" that writes into given tensors. Or, if an output
// is a list, one that works in place, whose name ends with "_". The Python module gives gradients
// to all but those with the underscore, which it calls itself: PyTorch does not call back into
// Python for them. (It has to be another name: of two overloads with the same arguments PyTorch
// forgets one, and ends with the other.)
std::vector<Signature> signatures(const twinops_operator_info& info);

// The results of the operator, a line each, for whoever must know their shapes without computing:
//   NAME LIKE SHAPE TYPE TYPE_ATTRIBUTE
// SHAPE is "like", "row" or "last:ATTRIBUTE", TYPE a type's name or "same"; TYPE_ATTRIBUTE is "-"
// if there is none, and ends with "?" if it may be "".
std::string describe_results(const Signature& signature);

}  // namespace twinops::torch_host
