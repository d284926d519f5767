// How a function of this room is declared: for host and device, and always inlined, so that an
// object built for one CPU instruction set never shares a copy of it with an object built for
// another.
#pragma once

#if defined(__FAST_MATH__)
#error "twinops: -ffast-math breaks the numeric contract; see docs/numerics.md"
#endif

#if defined(__CUDACC__)
#define TWINOPS_INLINE __host__ __device__ __forceinline__
#elif defined(TWINOPS_SANITIZED)
// With everything inlined and a check at each access, g++ takes minutes for a file.
#define TWINOPS_INLINE inline
#else
#define TWINOPS_INLINE [[gnu::always_inline]] inline
#endif
