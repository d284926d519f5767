// The operators by which a compiled graph draws seeds: their schemas, and what each is for, are in
// python/twinops/torch/_random.py.
#include <torch/csrc/stable/library.h>

#include "hosts/torch/tensors.hpp"

namespace twinops::torch_host {
namespace {

AtenTensorHandle number_of_the_cpu() {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_empty_strided(0, nullptr, nullptr, aoti_torch_dtype_int64(),
                                 aoti_torch_device_type_cpu(), 0, &made),
        "a new tensor");
  return made;
}

// first_place() -> Tensor: a number of the CPU's, 0.
void first_place(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  const AtenTensorHandle made = handles.keep(number_of_the_cpu());
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
  StableIValue call[] = {reinterpret_cast<StableIValue>(number_of_the_cpu()), 0};  // no generator
  check(torch_call_dispatcher("aten::random_", "", call, TORCH_ABI_VERSION), "a random number");
  stack[0] = call[0];
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
}  // namespace twinops::torch_host

STABLE_TORCH_LIBRARY_IMPL(twinops, CompositeExplicitAutograd, library) {
  library.impl("first_place", &twinops::torch_host::first_place);
  library.impl("place_of", &twinops::torch_host::place_of);
  library.impl("draw_seed", &twinops::torch_host::draw_seed);
  library.impl("seed_on", &twinops::torch_host::seed_on);
}
