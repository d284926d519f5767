// What launches ask of this build's code for a device. device.hpp has all of it, with <string>.
#pragma once

namespace twinops {

// What this build's code for a device is compiled for (CudaCode::architecture).
int code_architecture(int device);

}  // namespace twinops
