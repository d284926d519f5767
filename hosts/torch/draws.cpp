// The operators by which a compiled graph draws seeds: their schemas, and why there are two, are in
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

// place_of(Tensor x) -> Tensor: a number of the CPU's, 0.
void place_of(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  handles.keep(reinterpret_cast<AtenTensorHandle>(stack[0]));
  const AtenTensorHandle made = handles.keep(number_of_the_cpu());
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(made, &data), "a tensor's memory");
  *static_cast<int64_t*>(data) = 0;
  stack[0] = reinterpret_cast<StableIValue>(handles.give(made));
}

// draw_seed(Tensor place) -> Tensor: 63 bits from PyTorch's default generator for the CPU.
void draw_seed(StableIValue* stack, uint64_t, uint64_t) {
  Handles handles;
  handles.keep(reinterpret_cast<AtenTensorHandle>(stack[0]));
  StableIValue call[] = {reinterpret_cast<StableIValue>(number_of_the_cpu()), 0};  // no generator
  check(torch_call_dispatcher("aten::random_", "", call, TORCH_ABI_VERSION), "a random number");
  stack[0] = call[0];
}

}  // namespace
}  // namespace twinops::torch_host

STABLE_TORCH_LIBRARY_IMPL(twinops, CompositeExplicitAutograd, library) {
  library.impl("place_of", &twinops::torch_host::place_of);
  library.impl("draw_seed", &twinops::torch_host::draw_seed);
}
