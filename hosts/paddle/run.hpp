// Runs an operator on Paddle's tensors, whoever asks: a custom operator of Paddle's
// (hosts/paddle/register.cpp) or an eager call from Python (hosts/paddle/eager.cpp).
#pragma once

#include <paddle/phi/api/ext/op_meta_info.h>

#include "hosts/paddle/signature.hpp"

namespace twinops::paddle_host {

using Shape = std::vector<int64_t>;
using Types = std::vector<phi::DataType>;

// The values of a signature's attributes, in its order.
using Values = std::vector<twinops_attribute>;

// The tensors of a call, in the signature's order: those of input i are
// tensors[begin[i]] to tensors[begin[i + 1] - 1]. An input that is not there has none.
struct Inputs {
  std::vector<const ::paddle::Tensor*> tensors;
  std::vector<size_t> begin{0};

  void add(const ::paddle::Tensor& tensor) { tensors.push_back(&tensor); }
  void end_of_input() { begin.push_back(tensors.size()); }
  size_t count(size_t input) const { return begin[input + 1] - begin[input]; }
  const ::paddle::Tensor& first(size_t input) const { return *tensors[begin[input]]; }
};

// Whether what came for an input that is not required says that it is not there. A tensor without
// elements is there, unless the forward operator left it out.
bool is_left_out(const Input& input, const ::paddle::Tensor& tensor);

// The values that an attribute has where nothing is said.
Values default_values(const Signature& signature);

// Computes: returns the new outputs, in the signature's order. Those that are in place of an input
// are not among them.
std::vector<::paddle::Tensor> run(const Signature& signature, const Inputs& inputs,
                                  const Values& values);

// The shapes and types of the new outputs, for a static graph. A dimension that is not known yet is
// -1. Inputs are in the signature's order, lists apart.
std::vector<Shape> infer_shapes(const Signature& signature, const std::vector<Shape>& inputs,
                                const std::vector<std::vector<Shape>>& lists, const Values& values);
Types infer_types(const Signature& signature, const Types& inputs, const Values& values);

}  // namespace twinops::paddle_host
