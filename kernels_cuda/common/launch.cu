#include <string>

#include "kernels_cuda/common/launch.cuh"
#include "operators/error.hpp"

namespace twinops {

void throw_error(cudaError_t status, const char* what) {
  cudaGetLastError();  // else the next call would report it again
  throw Error(
      status == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device_error,
      std::string(what) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

}  // namespace twinops
