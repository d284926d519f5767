// How a row's chunks are shared out to lanes, warps and blocks, by its length: what the kernels of
// rows up to some thousand chunks are launched with.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "kernels_cuda/dealt_rows.cuh"
#include "kernels_cuda/device.hpp"
#include "kernels_cuda/row_launch.cuh"
#include "kernels_cuda/row_parts.cuh"
#include "kernels_cuda/row_share.cuh"
#include "kernels_cuda/team_parts.cuh"
#include "operators/softmax_rows.hpp"

namespace twinops {

inline constexpr int kShortThreads = 128;
inline constexpr int kMostBlocksOfRow = 16, kPortableBlocksOfRow = 8;  // of a cluster

template <class F>
inline constexpr int kRowWarps = sizeof(F) == 8 ? 16
                                                : 32;  // that a multiprocessor has registers for

static_assert(RowParts<float, float>::kMostChunks >= kMostBlocksOfRow * 2 * kRowWarps<float>);

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
template <int V, bool kRagged>
using ChunkShare = Share<kWarp, kFoldChunk / kWarp / V, V, kRagged>;

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
  const int largest = largest_cluster(device);
  if (chunks > std::int64_t{largest} * warps * of_warp) return false;
  plan.chunks = plan.warps = static_cast<int>(chunks);
  plan.blocks = 1;
  if (chunks <= of_block) return true;
  if (largest == 1) return of_warp == 1;
  const auto shares = [&](int parts) { return (plan.chunks + parts - 1) / parts; };
  plan.warps = shares(std::min(blocks_for(chunks, warps), largest) * of_warp);
  plan.blocks = shares(plan.warps * of_warp);
  return true;
}

// Whether blocks that are alone with a row, a chunk a warp, fill a multiprocessor so badly that two
// blocks with two chunks a warp do better: of 11 or 12 warps two have room, of 17 to 21 one. 16
// bits at 11264 0.79 to 0.87 of the copy rate, at 12288 0.82 to 0.88, at 13312 0.84 to 0.83;
// float32 at 17408 0.86 to 0.92, its logarithm 0.82 to 0.91, at 22528 0.93 to 0.91.
//
// Tried and left: one block with two chunks a warp (16 bits at 13 312 columns 0.87 to 0.89, at 17
// 408 0.86 to 0.88), which is a cluster of one, in which compute-sanitizer reports every st.async.
template <class In>
bool leaves_room(int chunks) {
  if (sizeof(In) == 2) return chunks == 11 || chunks == 12;
  return sizeof(In) == 4 && chunks >= 17 && chunks <= 21;
}

// Whether two chunks a warp do better than one, for 17 chunks of 16 bits or more: blocks of nine to
// twelve warps leave a multiprocessor more idle than those of three, five and six (float16 at 19
// 556 columns 0.83 to 0.86 of the copy rate, its logarithm 0.81 to 0.84, bfloat16 at 23 128 0.85 to
// 0.87; ragged rows of 23 chunks lose up to 0.02 in float16). Of 17 and 18 chunks where rows are
// whole packs, 0.86 to 0.90 in float16, its logarithm and bfloat16, whose logarithm loses 0.01;
// rows that begin anywhere lose 0.03.
template <bool kLog, class In>
bool pairs_are_better(int chunks, bool ragged) {
  if (chunks <= 18) return !ragged && !(kLog && std::is_same_v<In, bfloat16>);
  return !(ragged && (chunks == 21 || chunks == 23));
}

// Ragged rows of 21 chunks do better with three blocks of seven warps: float16 at 21 481 columns
// 0.80 to 0.85, its logarithm 0.78 to 0.82, bfloat16's 0.77 to 0.82.
inline void plan_three_blocks(ChunkRows& plan) {
  if (plan.chunks != 21 || plan.blocks != 2) return;
  plan.blocks = 3;
  plan.warps = 7;
}

// How many blocks of how many warps do best with two chunks a warp, of 16 bits; rows of other
// lengths keep their plan. Small blocks hide each other's waits, a multiprocessor has room for 32
// warps, and a warp without a chunk costs more than one that is not there. All that a row of 22 to
// 48 chunks may have were timed; from there on those that leave the fewest warps idle. Three blocks
// of three for 17 and 18 chunks (float16 at 18 432 columns 0.86 to 0.88 of the copy rate), two of
// nine for 33 to 36 (0.84 to 0.87 in place of three of six; where rows begin anywhere 0.79 to
// 0.83). For 121 to 128 warps 16 blocks of eight, though so large a cluster leaves some
// multiprocessors idle (float16 at 2^18: 0.74 in place of 0.72); with fewer warps that loses.
inline void plan_pairs(int device, ChunkRows& plan) {
  constexpr int kKept = 0;
  constexpr struct {
    int most_warps, of_block;
  } kBest[] = {{8, kKept}, {9, 3},  {16, kKept}, {18, 9}, {20, 4},      {21, 7}, {24, 4},
               {25, 5},    {28, 4}, {30, 5},     {32, 4}, {35, 5},      {36, 6}, {40, 8},
               {42, 6},    {48, 8}, {49, 7},     {64, 8}, {120, kKept}, {128, 8}};
  const int warps = (plan.chunks + 1) / 2;
  const auto* const best = std::find_if(std::begin(kBest), std::end(kBest),
                                        [&](const auto& row) { return warps <= row.most_warps; });
  if (best == std::end(kBest) || best->of_block == kKept) return;
  const int blocks = (warps + best->of_block - 1) / best->of_block;
  if (blocks > kPortableBlocksOfRow && largest_cluster(device) < blocks) return;
  plan.warps = best->of_block;
  plan.blocks = blocks;
}

// Launches a kernel of teams, if a team finds room, the call brought an allocator for what it meets
// in, and rows lie a stride apart: to find them among more axes takes registers, which spill
// (log_softmax_grad of float16 at 2^20 0.78 to 0.75, softmax 0.80 to 0.77). Room: kOfWarp chunks a
// warp, kMostBlocks of a team, bytes(warps) of a block's shared memory, scratch_bytes(blocks) for
// the grid. some_warps: of a block, of which those are taken with which a block has the fewest
// rows, and of equal ones the first.
template <class Room, class Job>
bool launch_teams(const Job& job, void (*kernel)(Job, ChunkRows),
                  std::initializer_list<int> some_warps, Execution& execution) {
  const int device = execution.device.index;
  if (execution.allocate == nullptr || job.rows.outer.rank > 1 ||
      !device_attribute(cudaDevAttrCooperativeLaunch, device))
    return false;
  const auto threads = [](int warps) { return static_cast<unsigned>(warps * kWarp); };
  const auto shared = [](int warps) { return Room::bytes(static_cast<std::size_t>(warps)); };
  const auto chunks = static_cast<int>((job.rows.length + kFoldChunk - 1) / kFoldChunk);
  ChunkRows plan{};
  std::int64_t turns = std::numeric_limits<std::int64_t>::max(), teams = 0;
  for (const int warps : some_warps) {
    const int of_block = Room::kOfWarp * warps, blocks = (chunks + of_block - 1) / of_block;
    if (!has_room(shared(warps), device) || blocks > Room::kMostBlocks) continue;
    const int resident = resident_blocks(kernel, threads(warps), shared(warps), device);
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
  const Workspace board(execution, Room::scratch_bytes(std::size_t{grid.x} * grid.y));
  plan.board = board.data();
  launch_rows(execution, kernel, grid, threads(plan.warps), shared(plan.warps), kResident, job,
              plan);
  return true;
}

// The Room of a kernel with two chunks a warp that has one for clusters, bytes(warps) besides the
// parts.
template <class Parts, std::size_t (*bytes_of)(std::size_t)>
struct PairsOfTeam {
  static constexpr int kOfWarp = 2, kMostBlocks = Parts::kMost;
  static constexpr std::size_t bytes(std::size_t warps) {
    return Parts::bytes(0) + bytes_of(warps);
  }
  static constexpr std::size_t scratch_bytes(std::size_t blocks) {
    return Parts::Board::bytes(blocks);
  }
};

// Whether rows of 16 bits do better dealt than in clusters, if that fills the device. Share of the
// copy rate in clusters, two chunks a warp, and dealt: 40 chunks 0.89 and 0.86, 64 0.84 and 0.85;
// where rows begin anywhere, 37 and 38 chunks 0.80 and 0.83, 69 0.76 and 0.81.
inline bool dealt_is_better(std::int64_t length, bool ragged) {
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  return chunks > 48 || (ragged && (chunks == 37 || chunks == 38));
}

// How rows are dealt round the device's blocks, of `shared` bytes each, and how many of those there
// are: none if there is no room, or (if_full) less than enough to do for all, or if a row is longer
// than most_groups, or than its blocks' warps are busy with at once: none of them may wait for a
// row before it has weighed its own chunks of it.
template <class Kernel, class Rows>
int plan_dealt(const Rows& rows, Kernel kernel, std::size_t shared, std::int64_t most_groups,
               bool if_full, const Execution& execution, DealtRows& plan) {
  constexpr int kChunks = DealtRows::kChunks, kWarps = DealtRows::kWarps;
  const int device = execution.device.index;
  if (execution.allocate == nullptr || rows.outer.rank > 1 || !has_room(shared, device) ||
      !device_attribute(cudaDevAttrCooperativeLaunch, device) || !has_clusters(device))
    return 0;
  const std::int64_t chunks = (rows.length + kFoldChunk - 1) / kFoldChunk;
  const std::int64_t groups = (chunks + kChunks - 1) / kChunks;
  if (groups < 2 || groups > most_groups || rows.rows > (1 << 30) / groups) return 0;
  const std::int64_t resident = resident_blocks(kernel, kWarps * kWarp, shared, device);
  const std::int64_t blocks = std::min(groups * rows.rows, resident);
  if (blocks == 0 || (if_full && blocks < resident) ||
      (groups + blocks - 1) / blocks * kChunks > kWarps)
    return 0;
  plan.rows = static_cast<int>(rows.rows);
  plan.length = static_cast<int>(rows.length);
  plan.groups = static_cast<int>(groups);
  plan.by_row = Divider(groups);
  return static_cast<int>(blocks);
}

// Launches a kernel whose clusters stay and take row after row; false if not even one finds room.
template <class Kernel, class Job>
bool launch_clusters(Kernel kernel, const Job& job, const ChunkRows& plan, std::size_t shared,
                     Execution& execution) {
  const int device = execution.device.index;
  const auto threads = static_cast<unsigned>(plan.warps * kWarp);
  if (!has_room(shared, device)) return false;
  const int clusters = active_clusters(kernel, threads, shared, plan.blocks, device);
  if (clusters == 0) return false;
  const std::int64_t at_once = std::min<std::int64_t>(job.rows.rows, clusters);
  launch_rows(execution, kernel, grid_of(at_once * plan.blocks), threads, shared, plan.blocks, job,
              plan);
  return true;
}

}  // namespace twinops
