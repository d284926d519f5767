// The one-element tensors of loss scaling, read and written on the device.
#pragma once

#include <cstdint>

#include "numerics/unscale.hpp"
#include "operators/types.hpp"

namespace twinops {

// A loss scale, float32 or float64. read() only issues the load, so that a thread can go on;
// inverse() waits for it.
struct DeviceScale {
  const void* data;
  bool is_double;

  struct Bits {
    std::uint32_t low, high;
  };
  DeviceScale(const void* scale, Type type) : data(scale), is_double(type == Type::float64) {}
  __device__ Bits read() const {
    const auto* words = static_cast<const std::uint32_t*>(data);
    return {words[0], is_double ? words[1] : 0u};
  }
  // 1 / scale, for elements of type T.
  template <class T>
  __device__ compute_t<T> inverse(Bits bits) const {
    if (is_double) [[unlikely]]
      return inverse_scale<T>(bit_cast<double>(std::uint64_t{bits.high} << 32 | bits.low));
    return inverse_scale<T>(bit_cast<float>(bits.low));
  }
};

// A flag: bool, uint8 or float32.
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
