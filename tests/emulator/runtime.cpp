// Memory, devices and launches.
#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/emulator/block.hpp"
#include "tests/emulator/cuda_runtime.h"

// Where a program has it: from now on, or no longer, what asks for memory is the GPU and not the
// host. (A test that refuses the host memory lets the GPU have it.)
extern "C" [[gnu::weak]] void emulated_gpu_works(bool works);

namespace {

struct AtWork {
  AtWork() { say(true); }
  ~AtWork() { say(false); }
  static void say(bool works) {
    if (emulated_gpu_works != nullptr) emulated_gpu_works(works);
  }
};

constexpr std::size_t kMostShared = 227 * 1024, kSharedUnasked = 48 * 1024, kMostParameters = 32764;
constexpr int kProcessors = 4;

thread_local cudaError_t last_error = cudaSuccess;
cudaError_t said(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

struct Message {
  cudaError_t error;
  const char *name, *text;
};
const Message& message_of(cudaError_t error) {
  static constexpr Message kMessages[] = {
      {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
      {cudaSuccess, "cudaSuccess", "no error"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
      {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
       "invalid configuration argument"},
      {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
  };
  for (const Message& message : kMessages)
    if (message.error == error) return message;
  return kMessages[0];
}

// What a GPU differs in from an H100, where a test says so.
int setting(const char* variable, int of_h100) {
  const char* const asked = std::getenv(variable);
  return asked != nullptr ? std::atoi(asked) : of_h100;
}
// Blocks of the largest cluster that there is room for.
int largest_cluster() { return setting("EMULATED_LARGEST_CLUSTER", 16); }
// What kernels are compiled for. Those of an architecture before 90 have no clusters.
int architecture() { return setting("EMULATED_ARCHITECTURE", 90); }

// What kernels have been allowed.
struct Allowed {
  std::size_t shared = kSharedUnasked;
  unsigned cluster = 8;
};
std::mutex mutex;
std::map<const void*, Allowed>& allowed() {
  static std::map<const void*, Allowed> all;
  return all;
}

}  // namespace

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) { return message_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return message_of(error).text; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return said(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {"emulated GPU", 9, 0};
  return cudaSetDevice(device);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kProcessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kMostShared;
      break;
  }
  return cudaSetDevice(device);
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  return said(posix_memalign(memory, 256, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}

namespace twinops::emulator {

cudaFuncAttributes attributes_of(const void* kernel) {
  const std::lock_guard lock(mutex);
  return {0, architecture(), static_cast<int>(allowed()[kernel].shared)};
}

int active_clusters(const cudaLaunchConfig_t& config) {
  const bool in_clusters =
      config.numAttrs > 0 && config.attrs->id == cudaLaunchAttributeClusterDimension;
  return in_clusters && config.attrs->val.clusterDim.x > static_cast<unsigned>(largest_cluster())
             ? 0
             : 2;
}

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  {
    const std::lock_guard lock(mutex);
    Allowed& of = allowed()[kernel];
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
      if (value < 0 || static_cast<std::size_t>(value) > kMostShared)
        return said(cudaErrorInvalidValue);
      of.shared = std::max<std::size_t>(kSharedUnasked, static_cast<std::size_t>(value));
    } else {
      of.cluster = value != 0 ? 16 : 8;
    }
  }
  // The kernel's attributes are those of all threads, and another one's call may come now.
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config, std::size_t parameters,
                   const std::function<void()>& body) {
  unsigned cluster = 1;
  bool resident = false, starts_early = false;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative)
      resident = attribute.val.cooperative != 0;
    else if (attribute.id == cudaLaunchAttributeClusterDimension)
      cluster = attribute.val.clusterDim.x;
    else
      starts_early = attribute.val.programmaticStreamSerializationAllowed != 0;
  }
  const unsigned x = config.gridDim.x, y = config.gridDim.y, z = config.gridDim.z;
  const unsigned threads = config.blockDim.x * config.blockDim.y * config.blockDim.z;
  Allowed may;
  {
    const std::lock_guard lock(mutex);
    may = allowed()[kernel];
  }
  const std::uint64_t blocks = std::uint64_t{x} * y * z;
  if (blocks == 0 || x > 0x7fffffffu || y > 65535 || z > 65535 || threads == 0 ||
      threads > kMostThreads || config.dynamicSmemBytes > may.shared ||
      parameters > kMostParameters || cluster == 0 || cluster > may.cluster || x % cluster != 0 ||
      cluster > static_cast<unsigned>(largest_cluster()) ||
      (architecture() < 90 && (cluster > 1 || starts_early)) ||
      (resident && blocks > std::uint64_t{kProcessors} * kBlocksOfProcessor))
    return said(cudaErrorInvalidConfiguration);

  const AtWork at_work;
  const Index grid{x, y, z}, block{config.blockDim.x, config.blockDim.y, config.blockDim.z};
  const auto at_once = static_cast<unsigned>(resident ? blocks : cluster);
  const auto run = [&](Company& company, unsigned rank, std::uint64_t number) {
    std::fenv_t of_host;  // a device has no modes
    std::feholdexcept(&of_host);
    std::fesetenv(FE_DFL_ENV);
    const Index at{static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
                   static_cast<unsigned>(number / x / y)};
    Block(company, rank, at, grid, block).run(body);
    std::fesetenv(&of_host);
  };
  for (std::uint64_t first = 0; first < blocks; first += at_once) {
    Company company(at_once, threads, config.dynamicSmemBytes);
    if (at_once == 1) {
      run(company, 0, first);
      continue;
    }
    std::vector<std::thread> others;
    for (unsigned rank = 0; rank < at_once; ++rank)
      others.emplace_back([&, rank] { run(company, rank, first + rank); });
    for (std::thread& thread : others) thread.join();
  }
  return cudaSuccess;
}

}  // namespace twinops::emulator
