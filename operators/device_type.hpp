// DLPack's number of a kind of device, also one that is newer than the header's enumeration: read
// as a DLDeviceType, such a number would be undefined behaviour.
#pragma once

#include <cstdint>
#include <cstring>

#include "dlpack/dlpack.h"

namespace twinops {

inline int type_of(const DLDevice& device) {
  std::int32_t type;
  static_assert(sizeof(device.device_type) == sizeof(type));
  std::memcpy(&type, &device.device_type, sizeof(type));
  return type;
}

}  // namespace twinops
