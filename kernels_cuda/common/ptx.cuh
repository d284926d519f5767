// Instructions that CUDA C++ has no words for, one or two a function, and where a block's dynamic
// shared memory lies. No other file of kernels_cuda/ holds PTX: the emulator of the tests has a
// header of its own in place of this one (tests/emulator/kernels_cuda/common/ptx.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "numerics/scalar.hpp"

namespace twinops {

// Declares `name`: the block's dynamic shared memory, unsigned chars at a multiple of 16. It is a
// macro, because the compiler optimizes less what a function returns.
#define TWINOPS_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

// This thread's lane, read again from its register: what follows from it is computed again, rather
// than kept in registers that a long loop has not got.
__device__ __forceinline__ int reload_lane() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// This thread's number in a flat block, and this block's number in a flat grid, read again in the
// same way.
__device__ __forceinline__ unsigned reload_thread() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
__device__ __forceinline__ unsigned reload_block() {
  unsigned block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}

// bits |= bit if `condition`: one instruction under a predicate. The compiler would make a word of
// each predicate and join the words.
__device__ __forceinline__ void or_if(bool condition, std::uint32_t& bits, std::uint32_t bit) {
  asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\t@p or.b32 %0, %0, %2;\n\t}"
      : "+r"(bits)
      : "r"(static_cast<std::uint32_t>(condition)), "r"(bit));
}

// The signs of bytes i and i + 1 of a word, each copied to all of 16 bits.
template <int i>
__device__ __forceinline__ std::uint32_t signs_of_two_bytes(std::uint32_t word) {
  std::uint32_t signs;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(signs) : "r"(word), "n"(0x9988 + i * 0x1111));
  return signs;
}

// Stores 16 bytes to global memory, kOffset bytes from `to`.
template <int kOffset>
__device__ __forceinline__ void write_16_bytes(void* to, uint4 words) {
  asm volatile("st.global.v4.b32 [%0 + %5], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w), "n"(kOffset)
               : "memory");
}

// Stores and loads a word that other blocks of the grid load and store at the same time. The second
// load takes two words at once.
__device__ __forceinline__ void write_relaxed(unsigned long long* to, unsigned long long word) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
__device__ __forceinline__ void read_relaxed(const void* from, unsigned long long (&words)[1]) {
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(words[0]) : "l"(from) : "memory");
}
__device__ __forceinline__ void read_relaxed(const void* from, unsigned long long (&words)[2]) {
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(words[0]), "=l"(words[1])
               : "l"(from)
               : "memory");
}

// Prefetches the line of 128 bytes that holds an address, to L2.
__device__ __forceinline__ void prefetch_line(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// An address in shared memory, as instructions take it.
using SharedAddress = unsigned;
__device__ __forceinline__ SharedAddress shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A barrier of `threads` threads of the block. They may reach it from different places of the code,
// unlike __syncthreads().
__device__ __forceinline__ void sync_from_anywhere(unsigned threads) {
  asm volatile("barrier.sync 1, %0;" ::"r"(threads) : "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
// The greater of two, NaN if either is.
__device__ __forceinline__ float max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// Copies 16 bytes from global to shared memory, kOffset bytes from both addresses, while the thread
// goes on. kNearby: through L1. The bytes are there once the thread that sent for them has waited.
template <int kOffset, bool kNearby>
__device__ __forceinline__ void copy_16_bytes_async(SharedAddress to, const void* from) {
  if constexpr (kNearby)
    asm volatile("cp.async.ca.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(to), "l"(from),
                 "n"(kOffset)
                 : "memory");
  else
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(to), "l"(from),
                 "n"(kOffset)
                 : "memory");
}
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// The number of this block in its cluster, and of the cluster in a flat grid.
__device__ __forceinline__ int block_of_cluster() {
  int block;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
  return block;
}
__device__ __forceinline__ int cluster_of_grid() {
  int cluster;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
  return cluster;
}

// The address in the shared memory of another block of the cluster that is `place` in this block's.
template <class T>
__device__ __forceinline__ T* in_block_of_cluster(T* place, int block) {
  return static_cast<T*>(__cluster_map_shared_rank(place, static_cast<unsigned>(block)));
}

// A cluster's barrier, and its two halves. The relaxed ones do not wait for what the threads have
// stored in global memory.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_sync_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.aligned;");
}
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// An mbarrier in shared memory. Either one thread of the block arrives at each phase, and whoever
// waits sees what that thread had written. Or other blocks send bytes: one thread says how many are
// to come, and whoever waits finds them all.
__device__ __forceinline__ void start_barrier(std::uint64_t& barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ __forceinline__ void show_barriers_to_cluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(SharedAddress barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void expect_bytes(SharedAddress barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void wait_for_phase(SharedAddress barrier, int parity) {
  constexpr unsigned kPatience = 10'000'000;  // nanoseconds before the processor looks again
  unsigned there = 0;
  while (there == 0)
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(there)
        : "r"(barrier), "r"(parity), "r"(kPatience)
        : "memory");
}

// Sends a part of 4, 8 or 16 bytes to where `place` is in another block of the cluster, whose
// `barrier` counts the bytes.
template <class Part>
__device__ __forceinline__ void send_to_block(Part* place, std::uint64_t* barrier, int block,
                                              Part part) {
  unsigned to, count;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(place)), "r"(block));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(count)
      : "r"(shared_address(barrier)), "r"(block));
  if constexpr (sizeof(Part) == 4)
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
        "r"(bit_cast<std::uint32_t>(part)), "r"(count)
        : "memory");
  else if constexpr (sizeof(Part) == 8)
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
        "l"(bit_cast<std::uint64_t>(part)), "r"(count)
        : "memory");
  else
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];" ::"r"(
            to),
        "l"(bit_cast<ulonglong2>(part).x), "l"(bit_cast<ulonglong2>(part).y), "r"(count)
        : "memory");
}
#endif

}  // namespace twinops
