// Draws; and the operators by which a compiled graph draws seeds, whose schemas, and what each is
// for, are in python/twinops/torch/_random.py.
#include "hosts/torch/draws.hpp"

#include <dlfcn.h>
#include <torch/csrc/stable/library.h>

namespace twinops::torch_host {
namespace {

constexpr DLDevice kHost{kDLCPU, 0};

AtenTensorHandle number_on(DLDevice device) {
  DLTensor like{};
  like.device = device;
  return empty(like, {}, {kDLInt, 64, 1});
}

// PyTorch's libraries need not have this function, but the driver has it wherever there is a GPU.
bool is_capturing(void* stream) {
  using Function = int (*)(void*, int*);
  static const auto function = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return driver == nullptr ? nullptr
                             : reinterpret_cast<Function>(dlsym(driver, "cuStreamIsCapturing"));
  }();
  int status = 0;
  return function != nullptr && function(stream, &status) == 0 && status != 0;
}

// first_place() -> Tensor: a number of the CPU's, 0.
void first_place(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const AtenTensorHandle made = handles.keep(number_on(kHost));
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(made, &data), "a tensor's memory");
  *static_cast<int64_t*>(data) = 0;
  stack[0] = reinterpret_cast<StableIValue>(handles.give(made));
}

// place_of(Tensor x) -> Tensor: the same.
void place_of(StableIValue* stack, uint64_t arguments, uint64_t results) {
  Handles handles;
  handles.keep(reinterpret_cast<AtenTensorHandle>(stack[0]));
  first_place(stack, arguments, results);
}

// draw_seed(Tensor place) -> Tensor: 63 bits from PyTorch's default generator for the CPU.
void draw_seed(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  handles.keep(reinterpret_cast<AtenTensorHandle>(stack[0]));
  stack[0] = reinterpret_cast<StableIValue>(draw(kHost));
}

// seed_on(Tensor seed, int device) -> Tensor: a number of the CPU's on a CUDA device, without
// waiting for the device: of so few bytes CUDA keeps a copy before it returns.
void seed_on(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const AtenTensorHandle seed = handles.keep(reinterpret_cast<AtenTensorHandle>(stack[0]));
  DLTensor there = view_of(seed, nullptr);
  const std::vector<int64_t> shape(there.shape, there.shape + there.ndim);
  there.device = {kDLCUDA, static_cast<int32_t>(stack[1])};
  const AtenTensorHandle made = handles.keep(empty(there, shape, there.dtype));
  check(aoti_torch_copy_(made, seed, 1), "a copy of a seed");
  stack[0] = reinterpret_cast<StableIValue>(handles.give(made));
}

}  // namespace

AtenTensorHandle draw(DLDevice device) {
  StableIValue call[] = {reinterpret_cast<StableIValue>(number_on(device)), 0};  // no generator
  call_aten("aten::random_", call, "a random number");
  return reinterpret_cast<AtenTensorHandle>(call[0]);
}

DLDevice drawing_device(DLDevice device) {
  return device.device_type != kDLCPU && is_capturing(current_stream(device)) ? device : kHost;
}

}  // namespace twinops::torch_host

STABLE_TORCH_LIBRARY_IMPL(twinops, CompositeExplicitAutograd, library) {
  library.impl("first_place", &twinops::torch_host::first_place);
  library.impl("place_of", &twinops::torch_host::place_of);
  library.impl("draw_seed", &twinops::torch_host::draw_seed);
  library.impl("seed_on", &twinops::torch_host::seed_on);
}
