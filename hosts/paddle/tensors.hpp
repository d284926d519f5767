// Paddle's tensors as DLPack views, and the streams and scratch memory of a call on them.
#pragma once

#include <paddle/phi/api/include/tensor.h>

#include <string>
#include <vector>

#include "twinops/twinops.h"

namespace twinops::paddle_host {

// The type of Paddle's that holds this one. Paddle has no kernels for uint32: int32 holds its bits.
phi::DataType to_paddle(DLDataType type);

// A view of a tensor's memory, with its strides, of a type that the argument takes if that is a
// question of words. It points into the tensor, which must outlive it and keep its shape.
DLTensor view_of(const ::paddle::Tensor& tensor, const twinops_argument_info& argument);

// A new tensor, its elements not set. (Paddle's `empty` chooses a kernel first, which takes
// longer.)
::paddle::Tensor empty(const std::vector<int64_t>& shape, phi::DataType type,
                       const phi::Place& place);

// Says what the memory of one of Paddle's custom devices is: kDLCUDA, its streams CUDA's, or
// kDLCPU. What is not said is refused: a device's memory may be out of reach.
void serve_device(const std::string& device_type, DLDeviceType memory);

// The stream on which Paddle computes `tensor`; nullptr on the CPU. Of a custom device whose memory
// is the host's it waits for the stream, because a CPU kernel is on none.
void* stream_of(const ::paddle::Tensor& tensor);

// Scratch memory of Paddle's allocator, for twinops_execution: it is given back when this goes. On
// a GPU Paddle's allocator keeps the order of the stream, so the kernels may still be running then.
class Scratch {
 public:
  explicit Scratch(const phi::Place& place) : place_(place) {}
  static void* allocate(void* self, size_t bytes, void* stream);

 private:
  phi::Place place_;
  std::vector<::paddle::Tensor> tensors_;
};

}  // namespace twinops::paddle_host
