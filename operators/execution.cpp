#include "operators/execution.hpp"

#include <new>

#include "operators/error.hpp"

namespace twinops {
namespace {
constexpr std::align_val_t kAlignment{64};
}

Workspace::Workspace(const Execution& execution, std::size_t bytes)
    : execution_(execution), bytes_(bytes) {
  if (bytes == 0) return;
  if (execution.allocate != nullptr) {
    memory_ = execution.allocate(execution.workspace_context, bytes, execution.stream);
  } else if (execution.device.backend == Backend::cpu) {
    memory_ = ::operator new(bytes, kAlignment, std::nothrow);
  } else {
    throw Error(Status::invalid_argument,
                "execution: this call needs " + std::to_string(bytes) +
                    " bytes of scratch memory on the device; give it an allocator");
  }
  if (memory_ == nullptr)
    throw Error(Status::out_of_memory,
                "no " + std::to_string(bytes) + " bytes of scratch memory could be had");
}

Workspace::~Workspace() {
  if (memory_ == nullptr) return;
  if (execution_.allocate == nullptr)
    ::operator delete(memory_, kAlignment);
  else if (execution_.release != nullptr)
    execution_.release(execution_.workspace_context, memory_, bytes_, execution_.stream);
}

}  // namespace twinops
