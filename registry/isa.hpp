// The CPU instruction sets: their names, and whether this machine has them.
#pragma once

#include "kernels_cpu/isa_list.hpp"
#include "operators/made_once.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace twinops {

template <class Isa>
struct IsaTraits;

#if defined(__x86_64__)
namespace isa {  // named for builds that leave some out
struct avx512;
struct avx2;
struct sse2;
}  // namespace isa

// Not a name that every __builtin_cpu_supports knows. Asked once: a virtual machine traps cpuid.
inline bool cpu_has_f16c() {
  static constinit AskedOnce kept;
  return kept.get([] {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  });
}
template <>
struct IsaTraits<isa::avx512> {
  static constexpr const char* name = "avx512";
  static bool available() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("fma") && cpu_has_f16c();
  }
};
template <>
struct IsaTraits<isa::avx2> {
  static constexpr const char* name = "avx2";
  static bool available() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
  }
};
template <>
struct IsaTraits<isa::sse2> {
  static constexpr const char* name = "sse2";
  static bool available() { return __builtin_cpu_supports("sse2"); }
};
#elif defined(__aarch64__)
template <>
struct IsaTraits<isa::neon64> {
  static constexpr const char* name = "neon64";
  static bool available() { return true; }
};
#endif

}  // namespace twinops
