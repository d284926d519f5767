// What every launch does before and after its kernel: errors, attributes, shared memory, the
// current device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace twinops {

// Throws Error(device_error) or Error(out_of_memory): `what` did not succeed. The message is made
// in launch.cu, so that no kernel's file includes <string>.
[[noreturn]] void throw_error(cudaError_t status, const char* what);
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw_error(status, what);
}

inline int device_attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

// Bytes of parameters up to which a launch takes no longer than one without any
// (docs/lab/softmax-warp-kernel.md#parameters-of-a-launch).
inline constexpr std::size_t kSmallParameters = 256;

// Lets launches of `kernel` ask for as much dynamic shared memory as `device` has, if they need
// more than every kernel may use. The limit that it sets is always the same, because another thread
// may launch between this call and our launch.
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), std::size_t shared, int device) {
  if (shared <= 48 * 1024) return;
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  if (static_cast<std::size_t>(attributes.maxDynamicSharedSizeBytes) >= shared) return;
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) -
                   static_cast<int>(attributes.sharedSizeBytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
        "cudaFuncSetAttribute");
}

// Launches `kernel` with `values`. `what` names it in an error's message.
template <class... Parameters, class... Values>
void launch_grid(const char* what, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                 std::size_t shared, void* stream, const Values&... values) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(stream);
  check(cudaLaunchKernelEx(&config, kernel, values...), what);
}

// Makes `device` current as long as the object lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    changed_ = previous_ != device;
    if (changed_) check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~CurrentDevice() {
    if (changed_) cudaSetDevice(previous_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace twinops
