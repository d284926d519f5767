// The one-element tensors of loss scaling, read and written on the device.
#pragma once

#include <cstdint>

#include "operators/types.hpp"

namespace twinops {

// A flag of type bool, uint8 or float32.
struct DeviceFlag {
  void* data;
  bool is_float;

  DeviceFlag(const void* flag, Type type)
      : data(const_cast<void*>(flag)), is_float(type == Type::float32) {}
  __device__ bool read() const {
    return is_float ? *static_cast<const float*>(data) != 0
                    : *static_cast<const std::uint8_t*>(data) != 0;
  }
  __device__ void set() const {
    if (is_float)
      *static_cast<float*>(data) = 1.0f;
    else
      *static_cast<std::uint8_t*>(data) = 1;
  }
};

}  // namespace twinops
