// Memory on any device, and its order: for programs that bring no CUDA of their own.
#pragma once

#include <cstddef>

#include "operators/tensor.hpp"

namespace twinops {

void* allocate(Device device, std::size_t bytes);
void release(Device device, void* memory);
void copy(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);
void synchronize(Device device);

}  // namespace twinops
