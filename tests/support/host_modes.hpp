// The floating-point states that a host program may have set before it calls the library.
#pragma once

#include <cfenv>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace twinops::test {

// The processor's control word, without the flags of exceptions that have happened.
inline unsigned long long float_control() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;
#elif defined(__aarch64__)
  unsigned long long word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

inline void set_float_control(unsigned long long word) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(word));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(word));
#else
  std::fesetround(static_cast<int>(word));
#endif
}

struct HostMode {
  const char* name;
  unsigned long long control;
};

// Rounding in bits 13 and 14, flush-to-zero bit 15, denormals-are-zero bit 6 of x86's MXCSR.
// AArch64's FPCR: rounding in bits 22 and 23 (up, down, to zero), flush-to-zero bit 24.
inline constexpr HostMode kHostModes[] = {
#if defined(__x86_64__)
    {"as started", 0x1f80},         {"flush to zero", 0x9f80},
    {"denormals are zero", 0x1fc0}, {"flush to zero, denormals are zero", 0x9fc0},
    {"round down", 0x3f80},         {"round up", 0x5f80},
    {"round toward zero", 0x7f80},  {"round up, flush to zero, denormals are zero", 0xdfc0},
#elif defined(__aarch64__)
    {"as started", 0},
    {"flush to zero", 1ull << 24},
    {"round up", 1ull << 22},
    {"round down", 2ull << 22},
    {"round toward zero", 3ull << 22},
    {"round up, flush to zero", 1ull << 22 | 1ull << 24},
#else
    {"as started", FE_TONEAREST},
    {"round down", FE_DOWNWARD},
    {"round up", FE_UPWARD},
    {"round toward zero", FE_TOWARDZERO},
#endif
};

// Sets a mode for a scope.
class InHostMode {
 public:
  explicit InHostMode(const HostMode& mode) : saved_(float_control()) {
    set_float_control(mode.control);
  }
  ~InHostMode() { set_float_control(saved_); }
  InHostMode(const InHostMode&) = delete;
  InHostMode& operator=(const InHostMode&) = delete;

 private:
  unsigned long long saved_;
};

}  // namespace twinops::test
