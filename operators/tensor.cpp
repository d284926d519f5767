#include "operators/tensor.hpp"

#include <algorithm>
#include <limits>

#include "operators/error.hpp"

namespace twinops {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(Status::invalid_argument, where + ": " + what);
}

Device read_device(DLDevice device, const std::string& where) {
  constexpr int kManaged = 13;
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost:
      return {Backend::cpu, 0};
    case kDLCUDA:
    case kManaged:
      return {Backend::cuda, device.device_id};
    default:
      refuse(where, "expected memory of the CPU or of a CUDA device; got DLPack device type " +
                        std::to_string(static_cast<int>(device.device_type)));
  }
}

// The product of the dimensions; refuses one that has no 64-bit byte offset.
std::int64_t count_elements(const DLTensor& t, std::size_t element, const std::string& where) {
  bool empty = false;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] < 0)
      refuse(where,
             "dimension " + std::to_string(i) + " is negative: " + std::to_string(t.shape[i]));
    empty |= t.shape[i] == 0;
  }
  if (empty) return 0;
  const std::int64_t most =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(element);
  std::int64_t n = 1;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] > most / n) refuse(where, "its size in bytes does not fit 64 bits");
    n *= t.shape[i];
  }
  return n;
}

bool is_contiguous(const Tensor& t) {
  if (t.strides == nullptr || t.elements <= 1) return true;
  std::int64_t expected = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

// Refuses strides that lead outside a 64-bit address space.
void check_extent(const Tensor& t, const std::string& where) {
  if (t.contiguous) return;
  std::int64_t extent = 0;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;
  for (int i = 0; i < t.rank; ++i) {
    if (t.strides[i] == std::numeric_limits<std::int64_t>::min())
      refuse(where, "a stride does not fit");
    const std::int64_t stride = std::max(t.strides[i], -t.strides[i]);
    if (stride != 0 && t.shape[i] - 1 > (most - extent) / stride)
      refuse(where, "its strides reach further than 64 bits of bytes");
    extent += stride * (t.shape[i] - 1);
  }
}

}  // namespace

const char* name(Backend backend) { return backend == Backend::cpu ? "cpu" : "cuda"; }

std::string describe(Device device) {
  return device.backend == Backend::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::int64_t Tensor::stride(int axis) const {
  if (strides != nullptr) return strides[axis];
  std::int64_t s = 1;
  for (int i = rank - 1; i > axis; --i) s *= shape[i];
  return s;
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

std::string describe_shape(const Tensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.rank; ++i)
    text += (i != 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

Tensor read_tensor(const DLTensor* tensor, TypeSet types, const std::string& where) {
  if (tensor == nullptr) refuse(where, "is NULL");
  if (tensor->ndim < 0) refuse(where, "has a negative number of dimensions");
  if (tensor->ndim > 0 && tensor->shape == nullptr) refuse(where, "its shape is NULL");
  Tensor t;
  if (!from_dlpack(tensor->dtype, t.type) || !types.has(t.type))
    refuse(where, "expected " + types.describe() + "; got " + describe(tensor->dtype));
  t.device = read_device(tensor->device, where);
  t.rank = tensor->ndim;
  t.shape = tensor->shape;
  t.strides = tensor->strides;
  t.elements = count_elements(*tensor, size_of(t.type), where);
  if (t.elements == 0) return t;
  t.contiguous = is_contiguous(t);
  check_extent(t, where);
  if (tensor->data == nullptr) refuse(where, "its data is NULL, but it has elements");
  t.data = static_cast<char*>(tensor->data) + tensor->byte_offset;
  if (reinterpret_cast<std::uintptr_t>(t.data) % size_of(t.type) != 0)
    refuse(where,
           "its data is not aligned to its element, " + std::to_string(size_of(t.type)) + " bytes");
  return t;
}

}  // namespace twinops
