// What a launch asks of a device. All else is in device.hpp, and is for people to read.
#pragma once

namespace twinops {

// What this build's code for a device is compiled for (CudaCode::architecture).
int code_architecture(int device);

}  // namespace twinops
