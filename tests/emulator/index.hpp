// Where the running thread is in its grid, as kernels ask for it.
#pragma once

#include <cstddef>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern constinit thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace twinops::emulator {
using Index = uint3;
struct alignas(16) uint128_slot {  // what shared memory is made of
  unsigned char bytes[16];
};
}  // namespace twinops::emulator
