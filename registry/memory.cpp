#include "registry/memory.hpp"

#include <cstdint>
#include <cstring>
#include <new>

#include "operators/error.hpp"

#if defined(TWINOPS_HAS_CUDA)
#include "kernels_cuda/runtime/device.hpp"
#else
namespace twinops {
namespace {
[[noreturn]] void no_cuda() {
  throw Error(Status::unsupported, "this build has no CUDA: it knows no memory but the host's");
}
void* cuda_allocate(int, std::size_t) { no_cuda(); }
void cuda_release(int, void*) { no_cuda(); }
void cuda_copy(int, void*, const void*, std::size_t) { no_cuda(); }
void cuda_synchronize(int) { no_cuda(); }
}  // namespace
}  // namespace twinops
#endif

namespace twinops {
namespace {
constexpr std::align_val_t kAlignment{64};
}

void* allocate(Device device, std::size_t bytes) {
  if (device.backend == Backend::cuda) return cuda_allocate(device.index, bytes);
  // libstdc++ rounds the size up to the alignment: those above would become 0, and be had.
  constexpr std::size_t kMost = SIZE_MAX - static_cast<std::size_t>(kAlignment) + 1;
  void* memory = bytes > kMost ? nullptr : ::operator new(bytes, kAlignment, std::nothrow);
  if (memory == nullptr)
    throw Error(Status::out_of_memory, "no " + std::to_string(bytes) + " bytes of host memory");
  return memory;
}

void release(Device device, void* memory) {
  if (memory == nullptr) return;
  if (device.backend == Backend::cuda) return cuda_release(device.index, memory);
  ::operator delete(memory, kAlignment);
}

void copy(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (to == nullptr || from == nullptr)
    throw Error(Status::invalid_argument, std::string("twinops_copy: the memory to copy ") +
                                              (to == nullptr ? "to" : "from") + " is NULL");
  if (to_device.backend == Backend::cuda) return cuda_copy(to_device.index, to, from, bytes);
  if (from_device.backend == Backend::cuda) return cuda_copy(from_device.index, to, from, bytes);
  std::memcpy(to, from, bytes);
}

void synchronize(Device device) {
  if (device.backend == Backend::cuda) cuda_synchronize(device.index);
}

}  // namespace twinops
