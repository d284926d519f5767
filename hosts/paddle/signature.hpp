// How Paddle sees an operator of twinops: the inputs, outputs and attributes of a custom operator,
// worked out from the library's operator table. Knows no header of Paddle's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "twinops/twinops.h"

namespace twinops::paddle_host {

struct Input {
  std::string name;                       // Paddle's, without its suffixes
  const twinops_argument_info* argument;  // what it is to twinops; nullptr: only its shape is used
  bool list = false;
  bool optional = false;
  bool gradient = false;      // of the forward operator's output `name`
  bool may_be_empty = false;  // an output of the forward operator: without elements, if left out
  std::string python_name{};  // `name`, or of a gradient `name`@GRAD

  bool is_required() const { return !optional && !may_be_empty; }
};

struct Output {
  // The shape: that of the input `like`; that again, of the first output's sums or, if it is the
  // first output's own, a copy of it; the same with a last dimension of another size; one element.
  enum class Shape { like_input, sums_or_copy, last_dimension, one_element };

  std::string name;
  const twinops_argument_info* argument;  // nullptr: a copy of the input `like`
  bool list = false;
  bool gradient = false;  // with respect to the forward operator's input `name`
  int in_place_of = -1;   // the input that it is; -1: a new tensor
  Shape shape = Shape::like_input;
  int like = 0;
  DLDataType type{};        // bits 0: the type of `like`
  int size_attribute = -1;  // of last_dimension: the attribute that names its size
  // Of an output that may be left out: the attribute that names its type. "" leaves it out, "same"
  // is the type of `like`, "uint32" a mask with a bit for each element of `like`.
  int type_attribute = -1;
};

struct Attribute {
  std::string name;
  int32_t kind;                                  // twinops_attribute_kind
  const twinops_attribute_info* info = nullptr;  // nullptr: the adapter's own, not passed on
};

struct Signature {
  std::string name;  // Paddle's, of the forward operator: "twinops_dropout"
  const twinops_operator_info* info = nullptr;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Attribute> attributes;
  std::string event{};  // what a profiler shows
  std::string names{};  // for Python: those of inputs, outputs and attributes, "x,mask;out;axis"

  int find_input(const std::string& name) const;  // -1 if there is none; gradients do not count
  size_t lists_before(int input) const;           // lists among the inputs before this one
};

// True for `dropout_grad` if there is a `dropout`: Paddle's autograd calls it.
bool is_gradient(const twinops_operator_info& info);

// An operator as Paddle's operators, named "twinops_" and its name. Paddle's static graphs know no
// gradient with respect to an input that is not there. So an operator with such inputs is several:
// one without them, and one for each choice of them, "twinops_<name>_with_bias_and_residual". The
// mask and the bias of softmax may be there without a gradient too: "twinops_softmax_with_mask" is
// for a mask that has a gradient.
std::vector<Signature> forward_signatures(const twinops_operator_info& info);

// The operator `<forward>_grad` as the gradient of `forward`; its `info` is nullptr if there is
// none. That of softmax takes the masks only if one of them has a gradient.
Signature gradient_signature(const Signature& forward);

}  // namespace twinops::paddle_host
