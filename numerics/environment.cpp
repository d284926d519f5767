#include "numerics/environment.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace twinops {
namespace {

// Every exception masked, round to nearest even, neither flush-to-zero nor denormals-are-zero.
#if defined(__x86_64__)
constexpr unsigned kContract = 0x1f80;
unsigned long long control() noexcept { return _mm_getcsr(); }
void set_control(unsigned long long word) noexcept { _mm_setcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
constexpr unsigned kContract = 0;
unsigned long long control() noexcept {
  unsigned long long word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_control(unsigned long long word) noexcept { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else  // only the rounding mode can be asked for
constexpr unsigned kContract = FE_TONEAREST;
unsigned long long control() noexcept { return static_cast<unsigned>(std::fegetround()); }
void set_control(unsigned long long word) noexcept { std::fesetround(static_cast<int>(word)); }
#endif

}  // namespace

FloatEnvironment::FloatEnvironment() noexcept : saved_(control()) { set_control(kContract); }
FloatEnvironment::~FloatEnvironment() { set_control(saved_); }

}  // namespace twinops
