#include "kernels_cpu/runtime/processor.hpp"

namespace twinops {

bool is_amd() {
#if defined(__x86_64__)
  static const bool amd = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
  }();
  return amd;
#else
  return false;
#endif
}

}  // namespace twinops
