// How a call is carried out: where, by which threads, with whose memory; and what it reports back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/tensor.hpp"

namespace twinops {

struct Execution {
  Device device{};
  void* stream = nullptr;  // a cudaStream_t; nullptr is CUDA's default stream
  int threads = 0;         // at most this many; 0: as many as OpenMP would take

  // The host's threads instead of the library's: calls task(task_context, i) once for every i in
  // [0, n), in any order, at once or not, and returns when all are done.
  using Task = void (*)(void* task_context, std::int64_t i);
  using ParallelFor = void (*)(void* context, std::int64_t n, Task task, void* task_context);
  ParallelFor parallel_for = nullptr;
  void* parallel_context = nullptr;

  // The host's allocator for scratch memory on `device`. Without one the CPU uses its own heap and
  // CUDA kernels that need scratch memory refuse the call.
  void* (*allocate)(void* context, std::size_t bytes, void* stream) = nullptr;
  void (*release)(void* context, void* memory, std::size_t bytes, void* stream) = nullptr;
  void* workspace_context = nullptr;

  // Reported.
  std::int64_t launches = 0;       // kernels launched on the device
  std::uint64_t random_words = 0;  // 32-bit words of the random sequence that the call reserved
};

// Scratch memory for the length of a scope, aligned to 64 bytes. Throws Error(out_of_memory) if it
// cannot be had, Error(invalid_argument) if a CUDA call brought no allocator.
class Workspace {
 public:
  Workspace(const Execution& execution, std::size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() const { return memory_; }

 private:
  const Execution& execution_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace twinops
