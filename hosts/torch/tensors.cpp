#include "hosts/torch/tensors.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <string>

// Why the last call failed. A PyTorch that has it (2.13) no longer prints that.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace twinops::torch_host {
namespace {

struct TypePair {
  int32_t torch;
  DLDataType dlpack;
};
// PyTorch's codes are its to give. Words come as integers of the same bits: PyTorch computes in
// those.
const std::vector<TypePair>& types() {
  static const std::vector<TypePair> all{
      {aoti_torch_dtype_float32(), {kDLFloat, 32, 1}},
      {aoti_torch_dtype_bfloat16(), {kDLBfloat, 16, 1}},
      {aoti_torch_dtype_float16(), {kDLFloat, 16, 1}},
      {aoti_torch_dtype_float64(), {kDLFloat, 64, 1}},
      {aoti_torch_dtype_bool(), kBool},
      {aoti_torch_dtype_uint8(), {kDLUInt, 8, 1}},
      {aoti_torch_dtype_int32(), {kDLInt, 32, 1}},
      {aoti_torch_dtype_int64(), {kDLInt, 64, 1}},
      {aoti_torch_dtype_int8(), {kDLInt, 8, 1}},
      {aoti_torch_dtype_int16(), {kDLInt, 16, 1}},
      {aoti_torch_dtype_uint32(), {kDLUInt, 32, 1}},
      {aoti_torch_dtype_uint64(), {kDLUInt, 64, 1}},
  };
  return all;
}

bool equal(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits; }

int32_t to_torch(DLDataType type) {
  if (type.code == kDLUInt && type.bits > 8) type.code = kDLInt;
  for (const TypePair& pair : types())
    if (equal(pair.dlpack, type)) return pair.torch;
  throw std::runtime_error(std::string("PyTorch has no tensors of twinops' type ") +
                           twinops_type_name(type));
}

bool takes(const twinops_argument_info& argument, DLDataType type) {
  return std::any_of(argument.types, argument.types + argument.type_count,
                     [&](DLDataType t) { return equal(t, type); });
}

DLDevice device_of(AtenTensorHandle tensor) {
  static const int32_t cpu = aoti_torch_device_type_cpu(), cuda = aoti_torch_device_type_cuda();
  int32_t type = 0, index = 0;
  check(aoti_torch_get_device_type(tensor, &type), "a tensor's device");
  if (type == cpu) return {kDLCPU, 0};
  if (type != cuda)
    throw std::runtime_error(
        "twinops computes on PyTorch's CPU and CUDA devices; this tensor is on "
        "another: move it with tensor.cpu() or tensor.cuda()");
  check(aoti_torch_get_device_index(tensor, &index), "a tensor's device");
  return {kDLCUDA, index};
}

AtenTensorHandle empty_strided(DLDevice device, int rank, const int64_t* sizes,
                               const int64_t* strides, DLDataType type) {
  AtenTensorHandle made = nullptr;
  const int32_t torch_device =
      device.device_type == kDLCUDA ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu();
  check(aoti_torch_empty_strided(rank, sizes, strides, to_torch(type), torch_device,
                                 device.device_id, &made),
        "memory for a new tensor");
  return made;
}

}  // namespace

void check(AOTITorchError error, const char* what) {
  if (error == AOTI_TORCH_SUCCESS) return;
  const char* const why = torch_exception_get_what_without_backtrace == nullptr
                              ? nullptr
                              : torch_exception_get_what_without_backtrace();
  throw std::runtime_error(std::string("twinops: PyTorch refused ") + what +
                           (why == nullptr ? std::string() : std::string(": ") + why));
}

void call_aten(const char* op, StableIValue* stack, const char* what) {
  check(torch_call_dispatcher(op, "", stack, TORCH_TARGET_VERSION), what);
}

Handles::~Handles() {
  for (const AtenTensorHandle tensor : tensors_) aoti_torch_delete_tensor_object(tensor);
  for (const StringHandle text : strings_) torch_delete_string(text);
}

AtenTensorHandle Handles::give(AtenTensorHandle tensor) {
  const auto found = std::find(tensors_.rbegin(), tensors_.rend(), tensor);
  if (found != tensors_.rend()) tensors_.erase(std::next(found).base());
  return tensor;
}

DLDataType type_of(int32_t dtype) {
  for (const TypePair& pair : types())
    if (pair.torch == dtype) return pair.dlpack;
  throw std::runtime_error(
      "expected float16, bfloat16, float32, float64, bool or an integer; got another type");
}

DLTensor view_of(AtenTensorHandle tensor, const twinops_argument_info* argument) {
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  void* data = nullptr;
  check(aoti_torch_get_dim(tensor, &rank), "a tensor's dimensions");
  check(aoti_torch_get_sizes(tensor, &sizes), "a tensor's shape");
  check(aoti_torch_get_strides(tensor, &strides), "a tensor's strides");
  check(aoti_torch_get_dtype(tensor, &dtype), "a tensor's type");
  check(aoti_torch_get_data_ptr(tensor, &data), "a tensor's memory");
  DLDataType type = type_of(dtype);
  const DLDataType words{kDLUInt, type.bits, 1};
  if (argument != nullptr && type.code == kDLInt && !takes(*argument, type) &&
      takes(*argument, words))
    type = words;
  return {data, device_of(tensor), static_cast<int32_t>(rank), type, sizes, strides, 0};
}

bool has_no_gaps(const DLTensor& view) {
  int64_t expected = 1;
  for (int i = view.ndim - 1; i >= 0; --i) {
    if (view.shape[i] == 0 || (view.shape[i] != 1 && view.strides[i] != expected)) return false;
    expected *= view.shape[i];
  }
  return true;
}

AtenTensorHandle empty_like(AtenTensorHandle like, const DLTensor& view, DLDataType type) {
  if (has_no_gaps(view))
    return empty_strided(view.device, view.ndim, view.shape, view.strides, type);
  // PyTorch's own rule for the order of axes.
  AtenTensorHandle copy = nullptr;
  check(aoti_torch_new_tensor_handle(like, &copy), "a tensor");
  const int32_t code = to_torch(type);
  auto* dtype = new StableIValue{static_cast<StableIValue>(code)};
  StableIValue stack[] = {
      reinterpret_cast<StableIValue>(copy), reinterpret_cast<StableIValue>(dtype), 0, 0, 0, 0};
  call_aten("aten::empty_like", stack, "memory for a new tensor");
  return reinterpret_cast<AtenTensorHandle>(stack[0]);
}

AtenTensorHandle empty(const DLTensor& like, const std::vector<int64_t>& shape, DLDataType type) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= std::max<int64_t>(shape[i], 1)) strides[i] = step;
  return empty_strided(like.device, static_cast<int>(shape.size()), shape.data(), strides.data(),
                       type);
}

AtenTensorHandle empty_dense(const DLTensor& like, DLDataType type) {
  if (has_no_gaps(like))
    return empty_strided(like.device, like.ndim, like.shape, like.strides, type);
  return empty(like, {like.shape, like.shape + like.ndim}, type);
}

// It is in libtorch_cuda alone, which is not among the libraries that this one sees: it is looked
// up in the process, so that one binary serves a PyTorch with CUDA and one without.
void* current_stream(DLDevice device) {
  if (device.device_type != kDLCUDA) return nullptr;
  using Function = AOTITorchError (*)(int32_t, void**);
  static const auto function = [] {
    void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr
               ? nullptr
               : reinterpret_cast<Function>(dlsym(library, "aoti_torch_get_current_cuda_stream"));
  }();
  if (function == nullptr)
    throw std::runtime_error(
        "twinops: a CUDA tensor in a process without PyTorch's libtorch_cuda.so");
  void* stream = nullptr;
  check(function(device.device_id, &stream), "its current CUDA stream");
  return stream;
}

void* Scratch::allocate(void* self, size_t bytes, void*) {
  Scratch& scratch = *static_cast<Scratch*>(self);
  try {  // PyTorch's allocators align to 64 bytes and more
    DLTensor like{};
    like.device = scratch.device;
    AtenTensorHandle tensor =
        scratch.handles.keep(empty(like, {static_cast<int64_t>(bytes)}, {kDLUInt, 8, 1}));
    void* data = nullptr;
    check(aoti_torch_get_data_ptr(tensor, &data), "scratch memory");
    return data;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace twinops::torch_host
