// The device over a GPU's memory and streams.
#pragma once

#include <cuda_runtime.h>

#include "paddle/phi/backends/device_ext.h"

namespace twindev {

inline C_Status status(cudaError_t error) { return error == cudaSuccess ? C_SUCCESS : C_FAILED; }
inline cudaStream_t of(C_Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
inline cudaEvent_t of(C_Event event) { return reinterpret_cast<cudaEvent_t>(event); }

inline C_Status set_device(int id) { return status(cudaSetDevice(id)); }
inline C_Status count_devices(size_t* n) {
  int count = 0;
  const C_Status result = status(cudaGetDeviceCount(&count));
  *n = static_cast<size_t>(count);
  return result;
}
inline C_Status create_stream(C_Device, C_Stream* stream) {
  return status(
      cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking));
}
inline C_Status destroy_stream(C_Device, C_Stream stream) {
  return status(cudaStreamDestroy(of(stream)));
}
inline C_Status create_event(C_Device, C_Event* event) {
  return status(
      cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming));
}
inline C_Status destroy_event(C_Device, C_Event event) {
  return status(cudaEventDestroy(of(event)));
}
inline C_Status record_event(C_Device, C_Stream stream, C_Event event) {
  return status(cudaEventRecord(of(event), of(stream)));
}
inline C_Status wait_event(C_Device, C_Stream stream, C_Event event) {
  return status(cudaStreamWaitEvent(of(stream), of(event), 0));
}
inline C_Status synchronize_stream(C_Device, C_Stream stream) {
  return status(cudaStreamSynchronize(of(stream)));
}
inline C_Status synchronize_event(C_Device, C_Event event) {
  return status(cudaEventSynchronize(of(event)));
}
inline C_Status synchronize_device(C_Device) { return status(cudaDeviceSynchronize()); }
inline C_Status allocate(C_Device, void** memory, size_t bytes) {
  return status(cudaMalloc(memory, bytes));
}
inline C_Status release(C_Device, void* memory, size_t) { return status(cudaFree(memory)); }
// The streams do not wait for the default stream, on which a copy is: so it waits for them.
inline C_Status copy(C_Device device, void* to, const void* from, size_t bytes) {
  synchronize_device(device);
  return status(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}
inline C_Status copy_later(C_Device, C_Stream stream, void* to, const void* from, size_t bytes) {
  return status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)));
}
inline constexpr auto copy_from_host_later = &copy_later;

}  // namespace twindev
