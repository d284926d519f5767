// The one-element tensors of loss scaling, read and written on the host.
#pragma once

#include "operators/types.hpp"

namespace twinops {

TWINOPS_INLINE double read_scale(const void* scale, Type type) {
  return type == Type::float64 ? *static_cast<const double*>(scale)
                               : *static_cast<const float*>(scale);
}

TWINOPS_INLINE bool read_flag(const void* flag, Type type) {
  return type == Type::float32 ? *static_cast<const float*>(flag) != 0
                               : *static_cast<const std::uint8_t*>(flag) != 0;
}

TWINOPS_INLINE void write_flag(void* flag, Type type, bool value) {
  if (type == Type::float32)
    *static_cast<float*>(flag) = value ? 1.0f : 0.0f;
  else
    *static_cast<std::uint8_t*>(flag) = value;
}

}  // namespace twinops
