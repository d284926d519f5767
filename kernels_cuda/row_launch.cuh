// Launches over rows: grids, clusters and shared memory, and what the blocks of a cluster do
// together.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "kernels_cuda/launch.cuh"
#include "kernels_cuda/row_parts.cuh"
#include "kernels_cuda/row_share.cuh"
#include "kernels_cuda/team_parts.cuh"
#include "operators/execution.hpp"

namespace twinops {

inline constexpr int kShortThreads = 128;

inline constexpr int kLongWarps = 16, kLongUnits = 512, kMostBlocksOfRow = 16;
inline constexpr int kPortableBlocksOfRow = 8;
inline constexpr int kMostWaiting = 8;  // chunks of a warp

// What a launch over long rows settles: a unit of 2^k chunks is a warp's, and the first chunks that
// a warp meets wait in shared memory.
struct LongRows {
  std::int64_t chunks;
  std::int64_t unit;  // chunks
  int units;          // of a row, up to kLongUnits
  int waiting;        // chunks of a warp that wait
  int blocks;         // of a row: the cluster
  int detour;         // where in shared memory it is, in bytes

  __host__ __device__ int warps() const { return units < kLongWarps ? units : kLongWarps; }
};

template <class F>
inline constexpr int kRowWarps = sizeof(F) == 8 ? 16
                                                : 32;  // that a multiprocessor has registers for

static_assert(RowParts<float, float>::kMostChunks >= kMostBlocksOfRow * 2 * kRowWarps<float>);

// Leaves a unit's part in every block of the row.
template <class Part>
__device__ __forceinline__ void share_part(Part* place, Part part, int blocks) {
  const int lane = threadIdx.x % kWarp;
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    if (lane < blocks) *cooperative_groups::this_cluster().map_shared_rank(place, lane) = part;
    return;
  }
#endif
  if (lane == 0) *place = part;
}

// What join(parts, n), for up to kWarp by a warp, makes of more, by all warps of a block; every
// thread has it. of_groups: room for a part for each kWarp.
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

inline int device_attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

inline bool has_room(std::size_t shared, int device) {  // a block
  return shared <= static_cast<std::size_t>(
                       device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
}

inline unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(std::min<std::int64_t>(blocks, 0x7fffffff));
}

// In place of a cluster's size: no clusters, and all blocks of the grid are resident at once.
inline constexpr int kResident = 0;

// A launch in clusters of `cluster` blocks, with `shared` bytes of dynamic shared memory.
struct RowLaunch {
  template <class... Parameters>
  RowLaunch(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, std::size_t shared,
            int cluster, void* stream) {
    config.gridDim = blocks;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = static_cast<cudaStream_t>(stream);
    if (cluster == kResident) {
      attribute.id = cudaLaunchAttributeCooperative;
      attribute.val.cooperative = 1;
    } else {
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    }
    config.attrs = &attribute;
    config.numAttrs = cluster != 1 ? 1 : 0;
    if (shared > 48 * 1024)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared)),
            "cudaFuncSetAttribute");
    if (cluster > 8)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
            "cudaFuncSetAttribute");
  }
  RowLaunch(const RowLaunch&) = delete;
  RowLaunch& operator=(const RowLaunch&) = delete;

  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attribute{};
};

template <class... Parameters, class... Values>
void launch_rows(Execution& execution, void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                 std::size_t shared, int cluster, const Values&... values) {
  const RowLaunch launch(kernel, blocks, threads, shared, cluster, execution.stream);
  check(cudaLaunchKernelEx(&launch.config, kernel, values...), "launch over rows");
  ++execution.launches;
}

// How many clusters find room on the device at once.
template <class... Parameters>
int active_clusters(void (*kernel)(Parameters...), unsigned threads, std::size_t shared,
                    int cluster) {
  const RowLaunch launch(kernel, static_cast<unsigned>(cluster), threads, shared, cluster, nullptr);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config),
        "cudaOccupancyMaxActiveClusters");
  return std::max(1, clusters);
}

// How many blocks find room on the device at once.
template <class... Parameters>
int resident_blocks(void (*kernel)(Parameters...), unsigned threads, std::size_t shared,
                    int device) {
  const RowLaunch launch(kernel, 1, threads, shared, kResident, nullptr);
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads),
                                                      shared),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks * device_attribute(cudaDevAttrMultiProcessorCount, device);
}

// A warp's share of a chunk.
template <int V, bool kRagged>
using ChunkShare = Share<kWarp, kFoldChunk / kWarp / V, V, kRagged>;

// Calls launch(TypeTag<Share>) with how a row of `length`, up to kFoldChunk, lies in lanes. A lane
// holds 16 elements where there are as many, 32 of 16 bits: what a row costs besides is shared by
// all that a lane holds. Elements one by one, which is slow anyway, have fewer shapes.
template <int V, bool kRagged, class Launch>
void with_short_share(std::int64_t length, Launch&& launch) {
  const auto with = [&]<int G, int R>() { launch(TypeTag<Share<G, R, V, kRagged>>()); };
  if constexpr (V == 1) {
    if (length <= 64) return with.template operator()<4, 16>();
    if (length <= 256) return with.template operator()<16, 16>();
  } else {
    constexpr int kLanes = V == 8 ? 2 : 4, R = (V == 8 ? 32 : 16) / V;
    if (length <= 16) return with.template operator()<kLanes, 16 / kLanes / V>();
    if (length <= 64) return with.template operator()<kLanes, R>();
    if (length <= 128) return with.template operator()<2 * kLanes, R>();
    if (length <= 256) return with.template operator()<4 * kLanes, R>();
    if (length <= 512) return with.template operator()<8 * kLanes, R>();
  }
  with.template operator()<32, 32 / V>();
}

// The number of blocks that share a row of which a multiprocessor has room for `room` chunks. Eight
// where two would do for half of that, because small blocks hide each other's waits; more than
// eight are not portable, and leave a tenth of an H200 idle.
inline int blocks_for(std::int64_t chunks, int room) {
  if (chunks <= room) return 2;
  return chunks <= kPortableBlocksOfRow * room ? kPortableBlocksOfRow : kMostBlocksOfRow;
}

// `of_warp` chunks a warp. A multiprocessor holds `warps`; a block that is alone with its row has
// up to `of_block` of them. False if a cluster has no room for the row.
inline bool plan_chunks(std::int64_t length, int warps, int of_block, int of_warp, int device,
                        ChunkRows& plan) {
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  if (chunks > std::int64_t{kMostBlocksOfRow} * warps * of_warp) return false;
  plan.chunks = plan.warps = static_cast<int>(chunks);
  plan.blocks = 1;
  if (chunks <= of_block) return true;
  if (device_attribute(cudaDevAttrComputeCapabilityMajor, device) < 9)
    return of_warp == 1 && chunks <= warps;
  const auto shares = [&](int parts) { return (plan.chunks + parts - 1) / parts; };
  plan.warps = shares(blocks_for(chunks, warps) * of_warp);
  plan.blocks = shares(plan.warps * of_warp);
  return true;
}

// Blocks of four to eight warps for a row that 17 to 64 warps work on, where a multiprocessor has
// room for 32: small blocks hide each other's waits, and a warp without a chunk costs more than one
// that is not there. For 121 to 128 warps 16 blocks of eight, though so large a cluster leaves some
// multiprocessors idle (float16 at 2^18: 0.74 in place of 0.72); with fewer warps that loses. Other
// rows keep their plan.
inline void plan_small_blocks(int warps, ChunkRows& plan) {
  if (warps > 8 * (kMostBlocksOfRow - 1) && warps <= 8 * kMostBlocksOfRow) {
    plan.warps = 8;
    plan.blocks = kMostBlocksOfRow;
  }
  if (warps <= 16 || warps > 64) return;
  double best = 0;
  for (int of_block = 4; of_block <= 8; ++of_block) {
    const int blocks = (warps + of_block - 1) / of_block;
    const double busy = static_cast<double>(warps) / (of_block * blocks);
    const double value = busy * busy * (32 / of_block * of_block);
    if (blocks > kPortableBlocksOfRow || value <= best) continue;
    best = value;
    plan.warps = of_block;
    plan.blocks = blocks;
  }
}

// Launches a kernel of teams, two chunks a warp, if a team finds room and the call brought an
// allocator for what it meets in. Parts: the kernel's. some_warps: of a block, of which those are
// taken that work on most rows at a time, and of equal ones the first. shared(warps): bytes.
template <class Parts, class Job, class Shared>
bool launch_teams(const Job& job, void (*kernel)(Job, ChunkRows),
                  std::initializer_list<int> some_warps, Shared&& shared, Execution& execution) {
  const int device = execution.device.index;
  if (execution.allocate == nullptr || !device_attribute(cudaDevAttrCooperativeLaunch, device))
    return false;
  const auto threads = [](int warps) { return static_cast<unsigned>(warps * kWarp); };
  const auto chunks = static_cast<int>((job.rows.length + kFoldChunk - 1) / kFoldChunk);
  ChunkRows plan{};
  std::int64_t turns = std::numeric_limits<std::int64_t>::max(), teams = 0;
  for (const int warps : some_warps) {
    const std::size_t bytes = shared(warps);
    const int blocks = (chunks + 2 * warps - 1) / (2 * warps);
    if (!has_room(bytes, device) || blocks > Parts::kMost) continue;
    const int resident = resident_blocks(kernel, threads(warps), bytes, device);
    if (blocks > resident) continue;
    const std::int64_t at_once = std::min<std::int64_t>(job.rows.rows, resident / blocks);
    const std::int64_t needed = (job.rows.rows + at_once - 1) / at_once;
    if (needed >= turns) continue;
    turns = needed;
    teams = at_once;
    plan = {chunks, blocks, warps, nullptr};
  }
  if (teams == 0) return false;
  const dim3 grid(static_cast<unsigned>(plan.blocks), static_cast<unsigned>(teams));
  const Workspace board(execution, Parts::board_bytes(std::size_t{grid.x} * grid.y));
  plan.board = board.data();
  launch_rows(execution, kernel, grid, threads(plan.warps), shared(plan.warps), kResident, job,
              plan);
  return true;
}

// How many rows the device works on at a time, in clusters side by side.
template <class Kernel>
std::int64_t rows_at_once(std::int64_t rows, const ChunkRows& plan, Kernel kernel,
                          std::size_t shared) {
  return std::min<std::int64_t>(
      rows,
      active_clusters(kernel, static_cast<unsigned>(plan.warps * kWarp), shared, plan.blocks));
}

// The plan for long rows: as many blocks a row as give each warp one unit, up to the largest
// cluster. `fixed` bytes of shared memory are spoken for; a chunk that waits takes `chunk`.
inline LongRows plan_long(std::int64_t length, std::size_t fixed, std::size_t chunk, int device) {
  LongRows plan{};
  plan.chunks = (length + kFoldChunk - 1) / kFoldChunk;
  plan.unit = 1;
  while ((plan.chunks + plan.unit - 1) / plan.unit > kLongUnits) plan.unit *= 2;
  plan.units = static_cast<int>((plan.chunks + plan.unit - 1) / plan.unit);
  plan.blocks = 1;
  const bool clusters = device_attribute(cudaDevAttrComputeCapabilityMajor, device) >= 9;
  while (clusters && plan.blocks < kMostBlocksOfRow && plan.units > kLongWarps * plan.blocks)
    plan.blocks *= 2;
  const std::int64_t all = std::int64_t{plan.warps()} * plan.blocks;
  const std::int64_t of_warp = (plan.units + all - 1) / all * plan.unit;
  const auto room = static_cast<std::int64_t>(
      device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) - fixed);
  plan.waiting = static_cast<int>(std::min<std::int64_t>(
      {of_warp, room / (plan.warps() * static_cast<std::int64_t>(chunk)), kMostWaiting}));
  return plan;
}

}  // namespace twinops
