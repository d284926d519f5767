// How a row's chunks are shared out to lanes, warps and blocks, by its length: what the kernels of
// rows up to some thousand chunks are launched with.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "kernels_cuda/device.hpp"
#include "kernels_cuda/rows/cluster_launch.cuh"
#include "kernels_cuda/rows/cluster_scope.cuh"
#include "kernels_cuda/rows/cooperative_scope.cuh"
#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/rows/tile_scheduler.cuh"
#include "operators/softmax_rows.hpp"

namespace twinops {

inline constexpr int kShortThreads = 128;
inline constexpr int kMostBlocksOfRow = 16, kPortableBlocksOfRow = 8;  // of a cluster

template <class F>
inline constexpr int kRowWarps = sizeof(F) == 8 ? 16
                                                : 32;  // that a multiprocessor has registers for

static_assert(ClusterScope<float, float>::kMostChunks >= kMostBlocksOfRow * 2 * kRowWarps<float>);

// Whether kernels have clusters, and barriers that bytes arrive at.
inline bool has_clusters(int device) { return cuda_code(device).architecture >= 90; }

// Of the largest cluster that a device launches: more than the portable eight only the GPUs of data
// centers do, of compute capability 9.0 and 10.x.
inline int largest_cluster(int device) {
  if (!has_clusters(device)) return 1;
  return device_attribute(cudaDevAttrComputeCapabilityMajor, device) <= 10 ? kMostBlocksOfRow
                                                                           : kPortableBlocksOfRow;
}

// A warp's share of a chunk.
template <int V, bool kUnaligned>
using ChunkFragment = LaneFragment<kWarp, kFoldChunk / kWarp / V, V, kUnaligned>;

// A block that is alone with a row, a chunk a warp; false if the row has more than `most` chunks.
inline bool plan_block(std::int64_t length, int most, ChunkPlan& plan) {
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  if (chunks > most) return false;
  plan.chunks = plan.warps = static_cast<int>(chunks);
  plan.blocks = 1;
  return true;
}

// How many warps the blocks of a kernel's clusters have: `few` to `more`, of which those that leave
// the fewest idle, and of equal ones the fewest, for a chunk that is nobody's costs half as many
// instructions as one; while eight blocks have room for the row. in_two: two blocks, where they
// have room for it with up to eight warps each; a launch of clusters costs each block some time.
//
// Share of the copy rate of softmax on an H200, two chunks a warp, bfloat16 that begins anywhere:
// 17 001 columns with three blocks of 3 warps 0.85, two of 5 0.89; 20 001 with three of 4, two of 5
// and of 6 0.86, 0.95, 0.86; 28 001 with four of 4, three of 5, two of 7 0.88, 0.90, 0.94; 32 001
// with 4 and 8 0.94 and 0.95; 36 001 with 4, 5, 6 0.89, 0.88, 0.90; 50 257 with 4, 5, 6, 7 0.88,
// 0.92, 0.80, 0.82. Of float32, where instructions are not the limit, 32 001 columns with 2, 3, 4,
// 8 0.92, 0.98, 0.96, 0.95; a chunk a warp, softmax_grad and its logarithm at 17 001 with 3, 4, 6
// 1.03, 1.02, 1.03 and 1.00, 0.94, 0.83, in bfloat16 0.83, 0.94, 1.01 and 0.88, 0.90, 0.92.
struct ClusterWarps {
  int least_warps, most_warps;
  bool in_two = false;
};

// A cluster with a row, `of_warp` chunks a warp, `most` warps a block; false if that has no room
// for it. More than eight blocks are not portable; beyond eight blocks of eight warps 16, where the
// device has them. Two at least: in a cluster of one compute-sanitizer reports every st.async.
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

// Launches a kernel of teams, if a team finds room, the call brought an allocator for what it meets
// in, and rows lie a stride apart: to find them among more axes takes registers, which spill
// (log_softmax_grad of float16 at 2^20 0.78 to 0.75, softmax 0.80 to 0.77). Room: kOfWarp chunks a
// warp, kMostBlocks of a team, bytes(warps) of a block's shared memory, scratch_bytes(blocks) for
// the grid. some_warps: of a block, of which those are taken with which a block has the fewest
// rows, and of equal ones the first.
template <class SmemLayout, class Params>
bool launch_cooperative(const Params& params, void (*kernel)(Params, ChunkPlan),
                        std::initializer_list<int> some_warps, Execution& execution) {
  const int device = execution.device.index;
  if (execution.allocate == nullptr || params.rows.outer.rank > 1 ||
      !device_attribute(cudaDevAttrCooperativeLaunch, device))
    return false;
  const auto threads = [](int warps) { return static_cast<unsigned>(warps * kWarp); };
  const auto shared = [](int warps) { return SmemLayout::bytes(static_cast<std::size_t>(warps)); };
  const auto chunks = static_cast<int>((params.rows.length + kFoldChunk - 1) / kFoldChunk);
  ChunkPlan plan{};
  std::int64_t turns = std::numeric_limits<std::int64_t>::max(), concurrent_rows = 0;
  for (const int warps : some_warps) {
    const int of_block = SmemLayout::kOfWarp * warps, blocks = (chunks + of_block - 1) / of_block;
    if (!fits_shared_memory(shared(warps), device) || blocks > SmemLayout::kMostBlocks) continue;
    const int resident = resident_blocks(kernel, threads(warps), shared(warps), device);
    if (blocks > resident) continue;
    const std::int64_t at_once = std::min<std::int64_t>(params.rows.rows, resident / blocks);
    const std::int64_t needed = (params.rows.rows + at_once - 1) / at_once;
    if (needed >= turns) continue;
    turns = needed;
    concurrent_rows = at_once;
    plan = {chunks, blocks, warps, nullptr};
  }
  if (concurrent_rows == 0) return false;
  const dim3 grid(static_cast<unsigned>(plan.blocks), static_cast<unsigned>(concurrent_rows));
  const Workspace exchange(execution, SmemLayout::scratch_bytes(std::size_t{grid.x} * grid.y));
  plan.exchange = exchange.data();
  launch_rows(execution, kernel, grid, threads(plan.warps), shared(plan.warps), kResident, params,
              plan);
  return true;
}

// The Room of a kernel with two chunks a warp that has one for clusters, bytes(warps) besides the
// parts.
template <class Parts, std::size_t (*bytes_of)(std::size_t)>
struct CooperativePairs {
  static constexpr int kOfWarp = 2, kMostBlocks = Parts::kMost;
  static constexpr std::size_t bytes(std::size_t warps) {
    return Parts::bytes(0) + bytes_of(warps);
  }
  static constexpr std::size_t scratch_bytes(std::size_t blocks) {
    return Parts::Exchange::bytes(blocks);
  }
};

// Launches a kernel of rows that are dealt round the device's blocks; false if there is no room, if
// the call brought no allocator for what they meet in, or if a row is longer than the relay has
// groups, or than its blocks' warps are busy with at once: none of them may wait for a row before
// it has weighed its own chunks of it. Room: kWarps and kBytes of a block, the Relay,
// scratch_bytes(groups) for all of them.
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

// Launches a kernel with a cluster a row; false if not even one finds room, or there are more
// of them than a grid has room for.
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
