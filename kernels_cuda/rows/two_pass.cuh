// Rows of any length: how a cluster divides their chunks, and what its blocks do together.
#pragma once

#include "kernels_cuda/rows/plan.cuh"

namespace twinops {

inline constexpr int kTwoPassWarps = 16, kTwoPassUnits = 512;
inline constexpr int kMaxStashed = 8;  // chunks of a warp

// What a launch over long rows decides. A unit of 2^k chunks is a warp's, and the first chunks that
// a warp reads are stashed in shared memory.
struct TwoPassPlan {
  std::int64_t chunks;
  std::int64_t unit;  // chunks
  int units;          // of a row, up to kTwoPassUnits
  int stashed;        // stashed chunks of a warp
  int blocks;         // of a row: the cluster

  __host__ __device__ int warps() const { return units < kTwoPassWarps ? units : kTwoPassWarps; }
};

// Publishes a unit's part to every block of the row.
template <class Part>
__device__ __forceinline__ void publish_part(Part* place, Part part, int blocks) {
  const int lane = threadIdx.x % kWarp;
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    if (lane < blocks) *in_block_of_cluster(place, lane) = part;
    return;
  }
#endif
  if (lane == 0) *place = part;
}

// Joins parts by all warps of a block; every thread has the result. join(parts, n) joins up to
// kWarp of them by a warp. of_groups: memory for one part for every kWarp of them.
template <class Part, class Join>
__device__ __forceinline__ Part join_by_block(const Part* parts, int count, Part* of_groups,
                                              Join&& join) {
  const int warp = threadIdx.x / kWarp, groups = (count + kWarp - 1) / kWarp;
  if (warp < groups) {
    const Part part = join(parts + warp * kWarp, min(kWarp, count - warp * kWarp));
    if (threadIdx.x % kWarp == 0) of_groups[warp] = part;
  }
  __syncthreads();
  return join(of_groups, groups);
}

// ChunkTree of a warp, all of whose lanes add the same: its partial sums stand in shared memory.
template <class Part>
class WarpTree {
 public:
  static constexpr int kLevels = 48;

  __device__ explicit WarpTree(Part* partial) : partial_(partial) {}
  __device__ void add(Part part) {
    int level = 0;
    for (; count_ >> level & 1; ++level) part = partial_[level] + part;
    __syncwarp();
    partial_[level] = part;
    __syncwarp();
    ++count_;
  }
  __device__ Part total() const {
    Part part{};
    for (int level = 0; count_ >> level != 0; ++level)
      if (count_ >> level & 1) part = partial_[level] + part;
    return part;
  }

 private:
  Part* partial_;
  std::uint64_t count_ = 0;
};

// The plan for long rows: as many blocks a row as give each warp one unit, up to `largest`. `fixed`
// bytes of shared memory are taken already; a stashed chunk takes `chunk` bytes.
inline TwoPassPlan plan_two_pass(std::int64_t length, std::size_t fixed, std::size_t chunk,
                                 int largest, int device) {
  TwoPassPlan plan{};
  plan.chunks = (length + kFoldChunk - 1) / kFoldChunk;
  plan.unit = 1;
  while ((plan.chunks + plan.unit - 1) / plan.unit > kTwoPassUnits) plan.unit *= 2;
  plan.units = static_cast<int>((plan.chunks + plan.unit - 1) / plan.unit);
  plan.blocks = 1;
  while (plan.blocks < largest && plan.units > kTwoPassWarps * plan.blocks) plan.blocks *= 2;
  const std::int64_t all = std::int64_t{plan.warps()} * plan.blocks;
  const std::int64_t of_warp = (plan.units + all - 1) / all * plan.unit;
  const std::int64_t available = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) -
                                 static_cast<std::int64_t>(fixed);
  plan.stashed = static_cast<int>(std::min<std::int64_t>(
      {of_warp, available / (plan.warps() * static_cast<std::int64_t>(chunk)), kMaxStashed}));
  return plan;
}

// Launches kernel(params, plan), in clusters as large as the device holds.
template <class Kernel, class Params>
void launch_two_pass_rows(Kernel kernel, const Params& params, std::size_t fixed, std::size_t chunk,
                          Execution& execution) {
  const int device = execution.device.index;
  for (int largest = largest_cluster(device);; largest /= 2) {
    const TwoPassPlan plan = plan_two_pass(params.rows.length, fixed, chunk, largest, device);
    const auto threads = static_cast<unsigned>(plan.warps() * kWarp);
    const std::size_t shared =
        fixed + chunk * static_cast<std::size_t>(plan.warps() * plan.stashed);
    if (plan.blocks > 1 && active_clusters(kernel, threads, shared, plan.blocks, device) == 0)
      continue;
    const std::int64_t rows = std::min<std::int64_t>(params.rows.rows, 1 << 26);
    return launch_rows(execution, kernel, grid_of(rows * plan.blocks), threads, shared, plan.blocks,
                       params, plan);
  }
}

}  // namespace twinops
