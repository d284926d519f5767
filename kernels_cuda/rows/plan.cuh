// How a row's chunks are divided among lanes, warps and blocks, by its length: what the kernels of
// rows up to some thousand chunks are launched with.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "kernels_cuda/rows/cluster_launch.cuh"
#include "kernels_cuda/rows/cluster_scope.cuh"
#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/rows/tile_scheduler.cuh"
#include "kernels_cuda/runtime/architecture.hpp"
#include "operators/softmax_rows.hpp"

namespace twinops {

inline constexpr int kShortThreads = 128;
inline constexpr int kPortableBlocksOfRow = 8;  // of a cluster

template <class F>
inline constexpr int kRowWarps = row_warps(sizeof(F));
static_assert(ClusterScope<float, float>::kMostChunks >= kMostBlocksOfRow * 2 * kRowWarps<float>);

// Whether kernels have clusters, and mbarriers that count bytes.
inline bool has_clusters(int device) { return code_architecture(device) >= 90; }

// Blocks of the largest cluster that a device launches. More than the portable eight have only the
// GPUs of data centers, of compute capability 9.0 and 10.x.
inline int largest_cluster(int device) {
  if (!has_clusters(device)) return 1;
  return device_attribute(cudaDevAttrComputeCapabilityMajor, device) <= 10 ? kMostBlocksOfRow
                                                                           : kPortableBlocksOfRow;
}

// A warp's fragment of a chunk.
template <int V, bool kUnaligned>
using ChunkFragment = LaneFragment<kWarp, kFoldChunk / kWarp / V, V, kUnaligned>;

// One block a row, a chunk a warp; false if the row has more than `most` chunks.
inline bool plan_block(std::int64_t length, int most, ChunkPlan& plan) {
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  if (chunks > most) return false;
  plan.chunks = plan.warps = static_cast<int>(chunks);
  plan.blocks = 1;
  return true;
}

// How many warps a cluster's blocks have: from least_warps to most_warps, as long as eight blocks
// hold the row. Taken is the number that leaves the fewest warps idle, and of equal ones the
// smallest: a chunk that no row has costs half as many instructions as one. in_two: two blocks,
// where they hold the row with up to eight warps each. Measured in
// docs/lab/softmax-block-kernel.md#warps-of-a-clusters-blocks.
struct ClusterWarps {
  int least_warps, most_warps;
  bool in_two = false;
};

// One cluster a row, `of_warp` chunks a warp, `most` warps a block; false if no cluster holds the
// row. More than eight blocks are not portable; rows beyond eight blocks of eight warps have 16,
// where the device has them. Two blocks at least: in a cluster of one compute-sanitizer reports
// every st.async.
inline bool plan_cluster(std::int64_t length, int of_warp, ClusterWarps of_block, int most,
                         int device, ChunkPlan& plan) {
  constexpr int kMany = 8;  // warps of a block
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  const int largest = largest_cluster(device), portable = std::min(kPortableBlocksOfRow, largest);
  if (largest == 1 || chunks > std::int64_t{largest} * most * of_warp) return false;
  const auto divide_up = [](int count, int of_one) { return (count + of_one - 1) / of_one; };
  plan.chunks = static_cast<int>(chunks);
  const int warps = divide_up(plan.chunks, of_warp);
  const auto idle = [&](int some) { return divide_up(warps, some) * some - warps; };
  if (of_block.in_two && warps <= 2 * kMany) {
    plan.warps = divide_up(warps, 2);
  } else {
    const int blocks = warps > portable * kMany ? largest : portable;
    const int least =
        std::min(std::max(divide_up(warps, blocks), of_block.least_warps), divide_up(warps, 2));
    const int most_warps = std::min(most, least > kMany ? least + 1 : of_block.most_warps);
    plan.warps = least;
    for (int some = least + 1; some <= most_warps && divide_up(warps, some) > 1; ++some)
      if (idle(some) < idle(plan.warps)) plan.warps = some;
  }
  plan.blocks = divide_up(warps, plan.warps);
  return true;
}

// Launches a kernel whose resident blocks take a row's groups of chunks in turn. False if the
// blocks do not fit the device, if the call brought no allocator for the messages between them, if
// a row has more groups than the scope, or more than the blocks' warps hold at once: no warp may
// wait for a row before it has weighed its own chunks of it. SmemLayout: kWarps and kBytes of a
// block, the Scope, scratch_bytes(groups) for all of them.
template <class SmemLayout, class Params>
bool launch_round_robin(const Params& params, void (*kernel)(Params, RoundRobinTiles),
                        Execution& execution) {
  constexpr int kChunks = RoundRobinTiles::kChunks, kWarps = SmemLayout::kWarps;
  const auto& rows = params.rows;
  const int device = execution.device.index;
  if (execution.allocate == nullptr || rows.outer.rank > 1 ||
      !fits_shared_memory(SmemLayout::kBytes, device) ||
      !device_attribute(cudaDevAttrCooperativeLaunch, device) || !has_clusters(device))
    return false;
  const std::int64_t chunks = (rows.length + kFoldChunk - 1) / kFoldChunk;
  const std::int64_t groups = (chunks + kChunks - 1) / kChunks;
  if (groups < 2 || groups > SmemLayout::Scope::kMostGroups || rows.rows > (1 << 30) / groups)
    return false;
  const std::int64_t resident = resident_blocks(kernel, kWarps * kWarp, SmemLayout::kBytes, device);
  const std::int64_t blocks = std::min(groups * rows.rows, resident);
  if (blocks == 0 || (groups + blocks - 1) / blocks * kChunks > kWarps) return false;
  RoundRobinTiles plan{};
  plan.rows = static_cast<int>(rows.rows);
  plan.length = static_cast<int>(rows.length);
  plan.groups = static_cast<int>(groups);
  plan.by_row = FastDivide(groups);
  const Workspace messages(execution,
                           SmemLayout::scratch_bytes(static_cast<std::size_t>(plan.all())));
  plan.messages = messages.data();
  launch_rows(execution, kernel, grid_of(blocks), static_cast<unsigned>(kWarps * kWarp),
              SmemLayout::kBytes, kResident, params, plan);
  return true;
}

// Launches a kernel with a cluster a row; false if the device holds not even one, or a grid cannot
// have so many blocks.
template <class Kernel, class Params>
bool launch_clusters(Kernel kernel, const Params& params, const ChunkPlan& plan, std::size_t shared,
                     Execution& execution) {
  const int device = execution.device.index;
  const auto threads = static_cast<unsigned>(plan.warps * kWarp);
  const std::int64_t blocks = params.rows.rows * plan.blocks;
  if (!fits_shared_memory(shared, device) || blocks >> 31 != 0 ||
      active_clusters(kernel, threads, shared, plan.blocks, device) == 0)
    return false;
  launch_rows(execution, kernel, grid_of(blocks), threads, shared, plan.blocks, params, plan);
  return true;
}

}  // namespace twinops
