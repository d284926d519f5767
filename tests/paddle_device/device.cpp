// A device for Paddle, "twindev", by its interface for custom devices: over the host's memory, with
// streams whose work a thread of their own does later, or with -DUSE_CUDA over a GPU's. Paddle
// finds it through the variable CUSTOM_DEVICE_ROOT.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "paddle/phi/backends/device_ext.h"

#if defined(USE_CUDA)
#include "tests/paddle_device/cuda_device.hpp"
#else
#include "tests/paddle_device/host_device.hpp"
#endif

namespace {

thread_local int current = 0;
std::atomic<long> waits{0}, bytes_held{0};

template <auto synchronize, class... Arguments>
C_Status counted(Arguments... arguments) {
  ++waits;
  return synchronize(arguments...);
}
C_Status allocate(C_Device device, void** memory, size_t bytes) {
  bytes_held += static_cast<long>(bytes);
  return twindev::allocate(device, memory, bytes);
}
C_Status release(C_Device device, void* memory, size_t bytes) {
  bytes_held -= static_cast<long>(bytes);
  return twindev::release(device, memory, bytes);
}

C_Status nothing() { return C_SUCCESS; }
C_Status nothing_on(C_Device) { return C_SUCCESS; }
C_Status set_device(C_Device device) {
  current = device->id;
  return twindev::set_device(device->id);
}
C_Status get_device(C_Device device) {
  device->id = current;
  return C_SUCCESS;
}
C_Status list_devices(size_t* list) {
  size_t n = 0;
  twindev::count_devices(&n);
  for (size_t i = 0; i < n; ++i) list[i] = i;
  return C_SUCCESS;
}
C_Status memory(C_Device, size_t* total, size_t* free) {
  *total = *free = size_t{4} << 30;
  return C_SUCCESS;
}
C_Status smallest_piece(C_Device, size_t* bytes) {
  *bytes = 512;
  return C_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void InitPlugin(CustomRuntimeParams* params) {
  PADDLE_CUSTOM_RUNTIME_CHECK_VERSION(params);
  params->device_type = const_cast<char*>("twindev");
  params->sub_device_type = const_cast<char*>("v1");
  C_DeviceInterface& f = *params->interface;
  std::memset(static_cast<void*>(&f), 0, sizeof(f));
  f.size = sizeof(f);
  f.initialize = f.finalize = &nothing;
  f.init_device = f.deinit_device = &nothing_on;
  f.set_device = &set_device;
  f.get_device = &get_device;
  f.get_device_count = &twindev::count_devices;
  f.get_device_list = &list_devices;
  f.device_memory_stats = &memory;
  f.device_min_chunk_size = &smallest_piece;
  f.create_stream = &twindev::create_stream;
  f.destroy_stream = &twindev::destroy_stream;
  f.create_event = &twindev::create_event;
  f.destroy_event = &twindev::destroy_event;
  f.record_event = &twindev::record_event;
  f.stream_wait_event = &twindev::wait_event;
  f.synchronize_device = &counted<twindev::synchronize_device, C_Device>;
  f.synchronize_stream = &counted<twindev::synchronize_stream, C_Device, C_Stream>;
  f.synchronize_event = &counted<twindev::synchronize_event, C_Device, C_Event>;
  f.device_memory_allocate = &allocate;
  f.device_memory_deallocate = &release;
  f.memory_copy_h2d = f.memory_copy_d2h = f.memory_copy_d2d = &twindev::copy;
  f.async_memory_copy_h2d = f.async_memory_copy_d2h = f.async_memory_copy_d2d =
      &twindev::copy_later;
}

// How often somebody waited for a stream, an event or the device; bytes that are allocated.
extern "C" __attribute__((visibility("default"))) long twindev_waits() { return waits; }
extern "C" __attribute__((visibility("default"))) long twindev_bytes() { return bytes_held; }
