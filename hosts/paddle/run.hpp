// Runs an operator on what Paddle gives: the bodies of its custom operators.
#pragma once

#include <paddle/phi/api/ext/op_meta_info.h>

#include "hosts/paddle/signature.hpp"

namespace twinops::paddle_host {

// Computes: takes inputs and attributes out of `context`, and puts the outputs there.
void run(const Signature& signature, ::paddle::CustomOpKernelContext& context);

// The shapes and types of the new outputs, for a static graph. A dimension that is not known yet is
// -1. Inputs are in the signature's order, lists apart.
std::vector<std::vector<int64_t>> infer_shapes(
    const Signature& signature, const std::vector<std::vector<int64_t>>& inputs,
    const std::vector<std::vector<std::vector<int64_t>>>& lists,
    const std::vector<::paddle::any>& attributes);
std::vector<phi::DataType> infer_types(const Signature& signature,
                                       const std::vector<phi::DataType>& inputs,
                                       const std::vector<std::vector<phi::DataType>>& lists,
                                       const std::vector<::paddle::any>& attributes);

}  // namespace twinops::paddle_host
