// The part of CUDA C++ and of its runtime that kernels_cuda/ is written in, for a machine without a
// GPU: kernels are compiled as C++ for the host, and a launch runs their threads as fibers
// (block.hpp) before it returns. Device memory is the host's.
#pragma once

// The standard library comes first: it spells attributes as CUDA spells its qualifiers.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/emulator/index.hpp"

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __builtin_assume(...) static_cast<void>(0)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

// min() and max() as CUDA overloads them: of two integer types what arithmetic makes of them.
template <class A, class B>
requires(std::is_integral_v<A>&& std::is_integral_v<B>) constexpr auto min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <class A, class B>
requires(std::is_integral_v<A>&& std::is_integral_v<B>) constexpr auto max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}

inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<std::uint64_t>(x)); }
inline int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 32);
}
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<unsigned>(high)) << 32 |
                               static_cast<unsigned>(low));
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1) << (31 - i);
  return y;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  return static_cast<unsigned>(both << std::min(shift, 32u) >> 32);
}
inline bool __isGlobal(const void*) { return true; }
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}

inline int atomicAdd(int* to, int more) { return std::atomic_ref(*to).fetch_add(more); }
inline void __threadfence_block() {}

// Threads of a warp, or of a block, together (warp.cpp). All of a warp are always asked.
void __syncthreads();
int __syncthreads_or(int said);
int __syncthreads_and(int said);
void __syncwarp(unsigned mask = ~0u);
int __all_sync(unsigned mask, int said);
unsigned __ballot_sync(unsigned mask, int said);
unsigned __reduce_or_sync(unsigned mask, unsigned value);
int __reduce_max_sync(unsigned mask, int value);

namespace twinops::emulator {
// The word that lane `from` of this thread's warp has given.
std::uint64_t shuffled(unsigned mask, std::uint64_t word, unsigned from);
unsigned lane_now();

template <class T>
T shuffle(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = shuffled(mask, word, from);
  std::memcpy(&value, &word, sizeof value);
  return value;
}
}  // namespace twinops::emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned lane = twinops::emulator::lane_now(), within = static_cast<unsigned>(width) - 1;
  return twinops::emulator::shuffle(mask, value,
                                    (lane & ~within) | (static_cast<unsigned>(from) & within));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const unsigned lane = twinops::emulator::lane_now(), within = static_cast<unsigned>(width) - 1;
  const unsigned from = lane ^ static_cast<unsigned>(lanes);
  return twinops::emulator::shuffle(mask, value, from > (lane | within) ? lane : from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  const unsigned lane = twinops::emulator::lane_now(), within = static_cast<unsigned>(width) - 1;
  return twinops::emulator::shuffle(mask, value,
                                    lane + lanes > (lane | within) ? lane : lane + lanes);
}

// The runtime (runtime.cpp).
#define CUDART_VERSION 13000
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 13,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDefault };
enum cudaLaunchAttributeID {
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
};
using cudaStream_t = struct CUstream_st*;
struct cudaDeviceProp {
  char name[256];
  int major, minor;
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  int ptxVersion, maxDynamicSharedSizeBytes;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  union {
    int cooperative, programmaticStreamSerializationAllowed;
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

namespace twinops::emulator {
// kernel: which one, to know its attributes by.
cudaFuncAttributes attributes_of(const void* kernel);
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
int active_clusters(const cudaLaunchConfig_t& config);
cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config, std::size_t parameters,
                   const std::function<void()>& body);
inline constexpr int kBlocksOfProcessor = 2;

template <class F>
const void* address_of(F* kernel) {
  return reinterpret_cast<const void*>(kernel);
}
}  // namespace twinops::emulator

template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  *attributes = twinops::emulator::attributes_of(twinops::emulator::address_of(kernel));
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  return twinops::emulator::set_attribute(twinops::emulator::address_of(kernel), attribute, value);
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void (*)(Parameters...),
                                           const cudaLaunchConfig_t* config) {
  *clusters = twinops::emulator::active_clusters(*config);
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*)(Parameters...), int,
                                                          std::size_t) {
  *blocks = twinops::emulator::kBlocksOfProcessor;
  return cudaSuccess;
}
template <class... Parameters, class... Values>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Values&... values) {
  const std::tuple<Parameters...> parameters(values...);
  return twinops::emulator::launch(twinops::emulator::address_of(kernel), *config,
                                   (sizeof(Parameters) + ... + 0),
                                   [&] { std::apply(kernel, parameters); });
}
