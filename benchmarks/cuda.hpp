// Timing on a CUDA device: by events, with a cold L2 cache.
#pragma once

#include <cstdint>
#include <functional>

namespace bench {

class CudaTimer {
 public:
  explicit CudaTimer(int device);
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;

  // Seconds that what `queue` puts on `stream()` takes on the device, after the L2 cache has been
  // filled with other things. The device is kept busy meanwhile, so that the time of the host shows
  // only where the device waits for it.
  double seconds(const std::function<void(void* stream)>& queue);
  // The same of cudaMemcpyAsync from device to device, and of an empty kernel.
  double copy_seconds(std::int64_t bytes);
  double empty_seconds();
  void synchronize();
  void* stream() const;

 private:
  struct State;
  State* state_;
};

}  // namespace bench
