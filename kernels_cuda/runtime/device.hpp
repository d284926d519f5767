// The CUDA devices of this machine and their memory, with no header of CUDA's. Nothing here is
// called when the library is loaded; the first question of each kind asks, and the answer is kept.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace twinops {

struct CudaDevice {
  std::string name;         // "NVIDIA H200"
  std::string capability;   // "sm_90"
  std::string row;          // "cuda/sm_90"
  std::string reason = {};  // why nothing is known of it
};

struct CudaProbe {
  std::vector<CudaDevice> devices;
  std::string reason;  // why there is none
};

// Which devices there are. Makes no context: a process may be meant for one of them.
const CudaProbe& cuda_probe();

// This build's code for a device. Makes a context there.
struct CudaCode {
  std::string reason;    // why there is none that it runs; else empty
  int architecture = 0;  // what kernels are compiled for, such as 90: code of an older architecture
                         // that the driver compiles for a newer device has what the older one has
  bool usable() const { return reason.empty(); }
};
const CudaCode& cuda_code(int device);

// Memory and order on a device, for programs that bring no CUDA of their own. All throw
// Error(device_error) or Error(out_of_memory).
void* cuda_allocate(int device, std::size_t bytes);
void cuda_release(int device, void* memory);
void cuda_copy(int device, void* to, const void* from, std::size_t bytes);  // done when it returns
void cuda_synchronize(int device);

}  // namespace twinops
