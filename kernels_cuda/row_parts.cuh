// The parts of a row's chunks, brought together in every block that works on the row. Within a
// cluster they are sent straight to the others' shared memory and counted there by an mbarrier: a
// barrier of the cluster would wait for every store to global memory as well.
#pragma once

#include "kernels_cuda/row_fold.cuh"

namespace twinops {

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Arrives and waits: all threads of a cluster, or of a block that is alone.
__device__ __forceinline__ void cluster_barrier(int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

// Parts of two rows in turn, so that one can still be read while the next is being written. Whoever
// sends a part of row i + 2 has all parts of row i + 1, and so knows that row i has been read.
template <class Part>
class RowParts {
 public:
  static_assert(sizeof(Part) == 4 || sizeof(Part) == 8 || sizeof(Part) == 16);
  __host__ __device__ static constexpr int bytes(int chunks) {
    return 16 + (2 * chunks * static_cast<int>(sizeof(Part)) + 15) / 16 * 16;
  }

  // All threads of the row's blocks.
  __device__ RowParts(void* memory, int chunks, int blocks)
      : arrived_(static_cast<std::uint64_t*>(memory)),
        parts_(reinterpret_cast<Part*>(arrived_ + 2)),
        chunks_(chunks),
        blocks_(blocks) {
    if (blocks == 1) return;
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived_ + i))
                     : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_barrier(blocks);
#endif
  }

  // All lanes of the warp whose chunk it is. A chunk beyond the row brings nothing.
  __device__ __forceinline__ void bring(int chunk, Part part) {
    const int lane = threadIdx.x % kWarp;
    if (chunk >= chunks_) return;
    Part* const place = parts_ + (turn_ & 1) * chunks_ + chunk;
#if __CUDA_ARCH__ >= 900
    if (blocks_ > 1) {
      if (lane < blocks_) send(place, arrived_ + (turn_ & 1), lane, part);
      return;
    }
#endif
    if (lane == 0) *place = part;
  }

  // All threads: the parts of the row, when all are there.
  __device__ __forceinline__ const Part* all() {
    const int turn = turn_++;
#if __CUDA_ARCH__ >= 900
    if (blocks_ > 1) {
      const unsigned arrived = shared_address(arrived_ + (turn & 1));
      if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived),
                     "r"(chunks_ * static_cast<int>(sizeof(Part)))
                     : "memory");
      constexpr unsigned kPatience = 10'000'000;  // nanoseconds before the processor looks again
      unsigned there = 0;
      while (there == 0)
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(there)
            : "r"(arrived), "r"(turn >> 1 & 1), "r"(kPatience)
            : "memory");
      return parts_ + (turn & 1) * chunks_;
    }
#endif
    __syncthreads();
    return parts_ + (turn & 1) * chunks_;
  }

  // All threads, before they leave: nobody's memory goes while others may send to it.
  __device__ __forceinline__ void leave() {
    if (blocks_ > 1) cluster_barrier(blocks_);
  }

 private:
#if __CUDA_ARCH__ >= 900
  __device__ __forceinline__ static void send(Part* place, std::uint64_t* arrived, int block,
                                              Part part) {
    unsigned to, count;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(place)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(count)
        : "r"(shared_address(arrived)), "r"(block));
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
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];" ::
              "r"(to),
          "l"(bit_cast<ulonglong2>(part).x), "l"(bit_cast<ulonglong2>(part).y), "r"(count)
          : "memory");
  }
#endif

  std::uint64_t* arrived_;
  Part* parts_;
  int chunks_, blocks_, turn_ = 0;
};

}  // namespace twinops
