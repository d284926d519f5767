#include <memory>
#include <string>

#include "kernels_cuda/common/launch.cuh"
#include "kernels_cuda/runtime/architecture.hpp"
#include "kernels_cuda/runtime/device.hpp"
#include "operators/error.hpp"
#include "operators/made_once.hpp"

namespace twinops {
namespace {

__global__ void probe_kernel() {}

CudaDevice describe_device(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  const std::string capability =
      "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  return {properties.name, capability, "cuda/" + capability};
}

CudaProbe probe() {
  CudaProbe found;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    found.reason = std::string("no CUDA device: ") + cudaGetErrorString(status);
    return found;
  }
  if (count == 0) found.reason = "no CUDA device";
  for (int i = 0; i < count; ++i) {
    try {
      found.devices.push_back(describe_device(i));
    } catch (const Error& error) {
      found.devices.push_back({"", "", "cuda/unknown", error.what()});
    }
  }
  return found;
}

CudaCode probe_code(int index) {
  const CudaDevice& device = cuda_probe().devices[static_cast<std::size_t>(index)];
  if (!device.reason.empty()) return {device.reason};
  try {
    const CurrentDevice current(index);
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
    if (status == cudaSuccess) return {"", attributes.ptxVersion};
    cudaGetLastError();
    return {"this build has no code for " + device.capability + ": " + cudaGetErrorString(status)};
  } catch (const Error& error) {
    return {error.what()};
  }
}

struct KeptCode {  // a device's, when it is first asked for
  explicit KeptCode(std::size_t devices) : of(new MadeOnce<CudaCode>[devices]) {}
  const std::unique_ptr<MadeOnce<CudaCode>[]> of;
};

}  // namespace

const CudaProbe& cuda_probe() {
  static constinit MadeOnce<CudaProbe> kept;
  return kept.get(probe);
}

const CudaCode& cuda_code(int device) {
  static constinit MadeOnce<KeptCode> kept;
  const KeptCode& codes = kept.get([] { return KeptCode(cuda_probe().devices.size()); });
  return codes.of[static_cast<std::size_t>(device)].get([&] { return probe_code(device); });
}

int code_architecture(int device) { return cuda_code(device).architecture; }

void* cuda_allocate(int device, std::size_t bytes) {
  const CurrentDevice current(device);
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void cuda_release(int device, void* memory) {
  const CurrentDevice current(device);
  check(cudaFree(memory), "cudaFree");
}

void cuda_copy(int device, void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(device);
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  // It may return while what it has taken from pageable memory, or from the device, is on its way.
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void cuda_synchronize(int device) {
  const CurrentDevice current(device);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace twinops
