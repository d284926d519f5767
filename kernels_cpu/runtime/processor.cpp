#include "kernels_cpu/runtime/processor.hpp"

#include "operators/made_once.hpp"

namespace twinops {

bool is_amd() {
#if defined(__x86_64__)
  static constinit AskedOnce kept;
  return kept.get([] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
  });
#else
  return false;
#endif
}

}  // namespace twinops
