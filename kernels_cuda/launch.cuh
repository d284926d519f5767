// What every launch does around its kernel.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "operators/error.hpp"

namespace twinops {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is reported must not meet the next call
  throw Error(
      status == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device_error,
      std::string(what) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

// Launches `kernel`; `what`: of what, for an error's message.
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

// Makes `device` current for a scope.
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
