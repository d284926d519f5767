#include "hosts/torch/execution.hpp"

#include <stdexcept>

#include "hosts/torch/tensors.hpp"

namespace twinops::torch_host {
namespace {

void parallel_for(void*, int64_t n, void (*task)(void*, int64_t), void* context) {
  struct Task {
    void (*run)(void*, int64_t);
    void* context;
  } each{task, context};
  const auto range = [](int64_t begin, int64_t end, void* self) {
    const Task& t = *static_cast<const Task*>(self);
    for (; begin < end; ++begin) t.run(t.context, begin);
  };
  if (torch_parallel_for(0, n, 1, range, &each) == AOTI_TORCH_SUCCESS) return;
  range(0, n, &each);  // PyTorch has no threads to lend
}

}  // namespace

void execute(const char* op, const twinops_argument* arguments, size_t argument_count,
             const twinops_attribute* attributes, size_t attribute_count, DLDevice device) {
  twinops_execution execution{};
  execution.struct_size = sizeof(execution);
  Scratch scratch{device, {}};
  execution.allocate = &Scratch::allocate;
  execution.workspace_context = &scratch;
  if (device.device_type == kDLCPU) {
    uint32_t threads = 1;
    check(torch_get_num_threads(&threads), "its number of threads");
    execution.threads = static_cast<int32_t>(threads);
    execution.parallel_for = &parallel_for;
  } else {
    execution.stream = current_stream(device);
  }
  if (twinops_run(op, arguments, argument_count, attributes, attribute_count, &execution) !=
      TWINOPS_OK)
    throw std::runtime_error(twinops_last_error());
}

}  // namespace twinops::torch_host
