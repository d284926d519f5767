// PyTorch's tensors, by the handles of its stable ABI, as DLPack views; and what a call needs of
// them: new tensors, the stream, scratch memory.
#pragma once

#include <torch/csrc/stable/c/shim.h>

#include <vector>

#include "twinops/twinops.h"

namespace twinops::torch_host {

constexpr DLDataType kBool{6, 8, 1};  // the type code of later DLPacks

// Throws what PyTorch refused, with its reason; one that does not tell has printed it.
void check(AOTITorchError error, const char* what);

// Calls ATen's operator. The stack is written as its schema is in the oldest PyTorch that is
// served, whatever headers this is built with: a PyTorch whose schema has more adds it.
void call_aten(const char* op, StableIValue* stack, const char* what);

// Handles that are given back when this goes.
class Handles {
 public:
  Handles() { tensors_.reserve(8); }
  Handles(const Handles&) = delete;
  ~Handles();
  AtenTensorHandle keep(AtenTensorHandle tensor) {
    tensors_.push_back(tensor);
    return tensor;
  }
  // What was kept is the caller's again. It was among the last.
  AtenTensorHandle give(AtenTensorHandle tensor);
  void reserve(size_t more) { tensors_.reserve(tensors_.size() + more); }
  StringHandle keep(StringHandle text) {
    strings_.push_back(text);
    return text;
  }

 private:
  std::vector<AtenTensorHandle> tensors_;
  std::vector<StringHandle> strings_;
};

// The type behind PyTorch's code; refuses what twinops has no name for.
DLDataType type_of(int32_t dtype);

// A view of a tensor's memory with its shape and strides, which the tensor holds. An int32 or int64
// tensor is taken for a word of 32 or 64 bits where `argument` takes those and not the integer.
DLTensor view_of(AtenTensorHandle tensor, const twinops_argument_info* argument);

// Whether it is in row-major order without gaps, and not empty.
bool has_no_gaps(const DLTensor& view);

// A new tensor on `like`'s device, of its shape and, if it has no gaps, its order of axes.
AtenTensorHandle empty_like(AtenTensorHandle like, const DLTensor& view, DLDataType type);
// A new tensor in row-major order without gaps, of `like`'s shape and on its device.
AtenTensorHandle empty_dense(const DLTensor& like, DLDataType type);
// The same of another shape.
AtenTensorHandle empty(const DLTensor& like, const std::vector<int64_t>& shape, DLDataType type);

// PyTorch's current stream on the device; nullptr on a CPU.
void* current_stream(DLDevice device);

// Scratch memory of PyTorch's allocator, for twinops_execution: it is given back when this goes. On
// a GPU that allocator keeps the order of the stream, so the kernels may still be running then.
struct Scratch {
  DLDevice device;
  Handles handles;
  static void* allocate(void* self, size_t bytes, void* stream);
};

}  // namespace twinops::torch_host
