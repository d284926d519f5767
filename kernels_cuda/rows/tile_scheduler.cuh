// A persistent tile scheduler: groups of neighbouring chunks of all rows, row after row, go round
// the device's blocks. So every multiprocessor has as much to do as any other, whatever a row's
// length, and several rows are under way at a time.
#pragma once

#include "kernels_cuda/common/fast_divide.cuh"
#include "kernels_cuda/rows/fold.cuh"

namespace twinops {

// Group q of all rows, of which a row has `groups`, is block q % gridDim.x's. A block counts its
// own groups from 0.
struct RoundRobinTiles {
  static constexpr int kChunks = 8;  // of a group; the row's last one may have fewer

  int rows, length;
  int groups;         // of a row
  FastDivide by_row;  // of groups by a row's
  void* messages;     // scratch memory

  TWINOPS_INLINE int all() const { return rows * groups; }
  // How many groups this block has.
  __device__ __forceinline__ int own() const {
    const auto blocks = static_cast<int>(gridDim.x);
    return (all() - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  }
  // Own group i as it is counted in all rows, and the row of such a group.
  __device__ __forceinline__ int group(int i) const {
    return static_cast<int>(blockIdx.x) + i * static_cast<int>(gridDim.x);
  }
  __device__ __forceinline__ int row(int group) const {
    return static_cast<int>(by_row.quotient(static_cast<std::uint32_t>(group)));
  }
  // Own chunk i: its group, its row, and where it begins in the row.
  struct Chunk {
    int group, row, begin;
  };
  __device__ __forceinline__ Chunk chunk(int i) const {
    const int mine = group(i / kChunks), its = row(mine);
    return {mine, its, ((mine - its * groups) * kChunks + i % kChunks) * kFoldChunk};
  }
};

}  // namespace twinops
