// Seeds: numbers of 63 bits by PyTorch's own generators.
#pragma once

#include "hosts/torch/tensors.hpp"

namespace twinops::torch_host {

// A number from PyTorch's default generator for the device: a new int64 tensor of no dimensions.
AtenTensorHandle draw(DLDevice device);

// The device whose generator a call on `device` draws from: the CPU, but a GPU's own while a CUDA
// graph is captured there.
DLDevice drawing_device(DLDevice device);

}  // namespace twinops::torch_host
