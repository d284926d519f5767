#include "hosts/paddle/tensors.hpp"

#include <paddle/common/ddim.h>
#include <paddle/phi/api/include/api.h>
#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/dense_tensor.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "hosts/paddle/errors.hpp"

namespace twinops::paddle_host {
namespace {

struct TypePair {
  phi::DataType paddle;
  DLDataType dlpack;
};
constexpr TypePair kTypes[] = {
    {phi::DataType::FLOAT16, {kDLFloat, 16, 1}},
    {phi::DataType::BFLOAT16, {kDLBfloat, 16, 1}},
    {phi::DataType::FLOAT32, {kDLFloat, 32, 1}},
    {phi::DataType::FLOAT64, {kDLFloat, 64, 1}},
    {phi::DataType::BOOL, {6, 8, 1}},  // the type code of later DLPacks
    {phi::DataType::UINT8, {kDLUInt, 8, 1}},
    {phi::DataType::INT8, {kDLInt, 8, 1}},
    {phi::DataType::INT16, {kDLInt, 16, 1}},
    {phi::DataType::INT32, {kDLInt, 32, 1}},
    {phi::DataType::INT64, {kDLInt, 64, 1}},
};

DLDataType to_dlpack(phi::DataType type) {
  for (const TypePair& pair : kTypes)
    if (pair.paddle == type) return pair.dlpack;
  refuse("twinops has no tensors of the type ", phi::DataTypeToString(type));
}

bool takes(const twinops_argument_info& argument, DLDataType type) {
  return std::any_of(argument.types, argument.types + argument.type_count,
                     [&](DLDataType t) { return t.code == type.code && t.bits == type.bits; });
}

// Paddle has no kernels for uint32, so its int32 holds those bits.
DLDataType type_for(const twinops_argument_info& argument, phi::DataType paddle) {
  const DLDataType type = to_dlpack(paddle), words{kDLUInt, type.bits, type.lanes};
  const bool as_words = type.code == kDLInt && !takes(argument, type) && takes(argument, words);
  return as_words ? words : type;
}

std::mutex devices_mutex;
std::map<std::string, DLDeviceType> devices;  // what serve_device() was told

DLDevice custom_device(const phi::Place& place) {
  const std::string type = place.GetDeviceType();
  const std::lock_guard lock(devices_mutex);
  const auto found = devices.find(type);
  if (found == devices.end())
    refuse("twinops does not know the memory of Paddle's device \"", type,
           "\": say that it is CUDA's or the host's, twinops.paddle.serve_device(\"", type,
           "\", \"cuda\"), or move the tensor with tensor.cpu()");
  return {found->second, found->second == kDLCPU ? 0 : place.GetDeviceId()};
}

DLDevice device_of(const phi::Place& place) {
  switch (place.GetType()) {
    case phi::AllocationType::CPU:
    case phi::AllocationType::GPUPINNED:
      return {kDLCPU, 0};
    case phi::AllocationType::GPU:
      return {kDLCUDA, place.GetDeviceId()};
    case phi::AllocationType::CUSTOM:
      return custom_device(place);
    default:
      refuse("twinops computes on Paddle's CPU and GPU places; this tensor lies on ",
             place.DebugString(), ": move it with tensor.to(\"cpu\") or tensor.to(\"gpu\")");
  }
}

}  // namespace

phi::DataType to_paddle(DLDataType type) {
  if (type.code == kDLUInt && type.bits == 32) return phi::DataType::INT32;
  for (const TypePair& pair : kTypes)
    if (pair.dlpack.code == type.code && pair.dlpack.bits == type.bits) return pair.paddle;
  refuse("Paddle has no tensors of twinops' type ", twinops_type_name(type));
}

DLTensor view_of(const ::paddle::Tensor& tensor, const twinops_argument_info& argument) {
  const phi::DDim &shape = tensor.dims(), &strides = tensor.strides();
  // A tensor without elements may have no memory, and no place that could be asked for.
  void* data = tensor.numel() == 0 ? nullptr : const_cast<void*>(tensor.data());
  return {data,
          device_of(tensor.place()),
          shape.size(),
          type_for(argument, tensor.dtype()),
          const_cast<int64_t*>(shape.Get()),
          strides.size() == shape.size() ? const_cast<int64_t*>(strides.Get()) : nullptr,
          0};
}

::paddle::Tensor empty(const std::vector<int64_t>& shape, phi::DataType type,
                       const phi::Place& place) {
  auto tensor = std::make_shared<phi::DenseTensor>();
  tensor->Resize(common::make_ddim(shape));
  phi::DeviceContextPool::Instance().Get(place)->Alloc(tensor.get(), type);
  return ::paddle::Tensor(tensor);
}

void serve_device(const std::string& device_type, DLDeviceType memory) {
  const std::lock_guard lock(devices_mutex);
  devices[device_type] = memory;
}

void* stream_of([[maybe_unused]] const ::paddle::Tensor& tensor) {
#if defined(PADDLE_WITH_CUDA)
  if (tensor.place().GetType() == phi::AllocationType::GPU) return tensor.stream();
#elif defined(PADDLE_WITH_CUSTOM_DEVICE)
  if (const phi::Place place = tensor.place(); place.GetType() == phi::AllocationType::CUSTOM) {
    if (device_of(place).device_type == kDLCUDA) return tensor.stream();
    phi::DeviceContextPool::Instance().Get(place)->Wait();
  }
#endif
  return nullptr;
}

void* Scratch::allocate(void* self, size_t bytes, void*) {
  Scratch& scratch = *static_cast<Scratch*>(self);
  try {  // Paddle's allocators align to 64 bytes and more
    scratch.tensors_.push_back(
        empty({static_cast<int64_t>(bytes)}, phi::DataType::UINT8, scratch.place_));
    return scratch.tensors_.back().data();
  } catch (...) {
    return nullptr;
  }
}

}  // namespace twinops::paddle_host
