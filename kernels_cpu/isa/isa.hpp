// The primitives that xsimd lacks, from the instruction set that this object is compiled for:
//
//   load_widened(p)       as many float16 or bfloat16 as a float vector has lanes, widened exactly
//   store_narrowed(p, v)  the reverse, rounded to nearest even; the canonical NaN stays canonical,
//                         another NaN becomes some NaN, as a bfloat16 only if its lower half is 0
//   load_two_widened(p, even, odd), store_two_narrowed(p, even, odd)
//                         the same for two vectors of bfloat16, which hold the even and the odd
//                         elements; a NaN stays one if its lower half is 0
//   fused(a, b, c)        a * b + c, rounded once, for vectors of floats or doubles
//   kHasFused             whether that is an instruction
//   larger(a, b)          the larger of each pair; a where a is NaN
//   fold_lanes(v)         the fold of a vector's lanes, the upper half onto the lower half
//   max_lanes(v)          the greatest lane of a vector without NaNs
//   holds_nan(a, b, c, d) whether any lane of four vectors is NaN
//   in_turn(v)            the program computes v behind what it gave to in_turn before
//   stream(p, v)          stores past the caches; p is aligned to the vector
//   end_of_streams()      orders such stores before what follows
#pragma once

#if defined(__AVX512BW__)
#include "kernels_cpu/isa/avx512.hpp"
#elif defined(__AVX2__)
#include "kernels_cpu/isa/avx2.hpp"
#elif defined(__SSE2__)
#include "kernels_cpu/isa/sse2.hpp"
#elif defined(__aarch64__)
#include "kernels_cpu/isa/neon64.hpp"
#endif

namespace twinops::isa {

template <class Batch>
TWINOPS_INLINE void in_turn(Batch& v) {
#if defined(__aarch64__)
  asm volatile("" : "+w"(v.data));
#else
  asm volatile("" : "+v"(v.data));
#endif
}

}  // namespace twinops::isa
