// Runs an operator of twinops on PyTorch's tensors.
#pragma once

#include <torch/csrc/stable/c/shim.h>

#include "hosts/torch/signature.hpp"

namespace twinops::torch_host {

// A kernel of PyTorch's stable ABI: takes the arguments of the signature's schema from the stack
// and puts the results there. Throws std::runtime_error with the library's message.
void run(const Signature& signature, StableIValue* stack);

}  // namespace twinops::torch_host
