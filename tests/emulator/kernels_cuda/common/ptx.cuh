// What kernels_cuda/common/ptx.cuh says to a GPU, for the emulator.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "numerics/scalar.hpp"
#include "tests/emulator/block.hpp"

namespace twinops {

inline emulator::Block& block_now() { return emulator::Block::now(); }

#define TWINOPS_DYNAMIC_SHARED(name) unsigned char* const name = block_now().shared()
inline int reload_lane() { return static_cast<int>(block_now().lane()); }
inline unsigned reload_thread() { return threadIdx.x; }
inline unsigned reload_block() { return blockIdx.x; }

inline void or_if(bool condition, std::uint32_t& bits, std::uint32_t bit) {
  if (condition) bits |= bit;
}
template <int i>
inline std::uint32_t signs_of_two_bytes(std::uint32_t word) {
  const auto of = [&](int byte) { return (word >> (8 * byte + 7) & 1) != 0 ? 0xffffu : 0u; };
  return of(i + 1) << 16 | of(i);
}
inline float max_nan(float a, float b) {
  if (a != a || b != b) return bit_cast<float>(0x7fffffffu);
  if (a == b) return (to_bits(a) >> 31) != 0 ? b : a;
  return a < b ? b : a;
}

// On the device the address of an access is a multiple of its size.
template <int kSize>
inline void check_aligned(const void* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % kSize != 0) block_now().fail("misaligned address");
}

// Of all threads: it is used for that alone.
inline void sync_from_anywhere(unsigned) { __syncthreads(); }

template <int kOffset>
inline void write_16_bytes(void* to, uint4 words) {
  void* const at = static_cast<char*>(to) + kOffset;
  check_aligned<16>(at);
  *static_cast<uint4*>(at) = words;
}
inline void write_relaxed(unsigned long long* to, unsigned long long word) {
  check_aligned<8>(to);
  std::atomic_ref(*to).store(word);
}
template <int kWords>
inline void read_relaxed(const void* from, unsigned long long (&words)[kWords]) {
  block_now().yield();
  check_aligned<8 * kWords>(from);
  auto* const at = static_cast<unsigned long long*>(const_cast<void*>(from));
  for (int i = 0; i < kWords; ++i) words[i] = std::atomic_ref(at[i]).load();
}

inline void prefetch_line(const void*) {}

using SharedAddress = void*;
inline SharedAddress shared_address(const void* p) { return const_cast<void*>(p); }

template <int kOffset, bool kNearby>
inline void copy_16_bytes_async(SharedAddress to, const void* from) {
  void* const at = static_cast<char*>(to) + kOffset;
  const void* const what = static_cast<const char*>(from) + kOffset;
  check_aligned<16>(at);
  check_aligned<16>(what);
  block_now().copy_later(at, what, 16);
}
inline void wait_for_copies() { block_now().wait_for_all_copies(); }

inline int block_of_cluster() { return static_cast<int>(block_now().rank()); }
inline int cluster_of_grid() {
  return static_cast<int>(blockIdx.x / block_now().company().shared.size());
}
template <class T>
inline T* in_block_of_cluster(T* place, int block) {
  return static_cast<T*>(block_now().in_block(place, static_cast<unsigned>(block)));
}
inline void cluster_arrive_relaxed() { block_now().arrive(); }
inline void cluster_wait() { block_now().wait(); }
inline void cluster_sync() {
  block_now().arrive();
  block_now().wait();
}
inline void cluster_sync_relaxed() { cluster_sync(); }

// An mbarrier: bytes that are still to come (fewer than none, where they come before they are
// expected), threads that are still to arrive, and its phase's parity.
struct ByteBarrier {
  std::int32_t bytes;
  std::uint16_t arrivals, parity;
  void complete() {
    if (arrivals > 0 || bytes != 0) return;
    arrivals = 1;
    parity ^= 1;
  }
};
static_assert(sizeof(ByteBarrier) == sizeof(std::uint64_t));
inline void start_barrier(std::uint64_t& barrier) {
  reinterpret_cast<ByteBarrier&>(barrier) = {0, 1, 0};
}
inline void arrive(SharedAddress barrier) {
  const std::lock_guard lock(block_now().company().mutex);
  auto& mine = *static_cast<ByteBarrier*>(barrier);
  --mine.arrivals;
  mine.complete();
}
inline void show_barriers_to_cluster() {}
inline void expect_bytes(SharedAddress barrier, int bytes) {
  const std::lock_guard lock(block_now().company().mutex);
  auto& mine = *static_cast<ByteBarrier*>(barrier);
  mine.bytes += bytes;
  --mine.arrivals;
  mine.complete();
}
inline void wait_for_phase(SharedAddress barrier, int parity) {
  for (;;) {
    {
      const std::lock_guard lock(block_now().company().mutex);
      if (static_cast<ByteBarrier*>(barrier)->parity != parity) return;
    }
    block_now().yield();
  }
}
template <class Part>
inline void send_to_block(Part* place, std::uint64_t* barrier, int block, Part part) {
  const auto rank = static_cast<unsigned>(block);
  auto* const to = static_cast<Part*>(block_now().in_block(place, rank));
  auto& there = *static_cast<ByteBarrier*>(block_now().in_block(barrier, rank));
  const std::lock_guard lock(block_now().company().mutex);
  *to = part;
  there.bytes -= static_cast<std::int32_t>(sizeof(Part));
  there.complete();
}

}  // namespace twinops
