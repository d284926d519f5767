// Which rows count as strided rows (strided_rows/lanes.cuh), and how lanes, warps and blocks divide
// them.
#pragma once

#include <type_traits>

#include "kernels_cuda/rows/offsets.cuh"
#include "kernels_cuda/rows/plan.cuh"
#include "numerics/fold.hpp"

namespace twinops {

// A tile is lanes() * V rows. Where these have several chunks, the blocks of a cluster share them,
// and each block has at_once of them at a time. Tiles whose rows are one warp's stand several in a
// block.
struct StridedPlan {
  int lanes_log;        // 2^lanes_log lanes of a warp lie side by side
  int warps_log;        // 2^warps_log warps share a chunk
  int at_once;          // chunks of a block
  int chunks;           // of a row
  int blocks;           // of a tile: the cluster
  int tiles;            // of a block
  FastDivide by_inner;  // by the size of the innermost of the rows' axes

  TWINOPS_INLINE int lanes() const { return 1 << lanes_log; }
  TWINOPS_INLINE int warps() const { return 1 << warps_log; }
  TWINOPS_INLINE int places() const { return kWarp >> lanes_log; }
  // Chunks of a row that are at work at the same time.
  TWINOPS_INLINE int at_work() const { return at_once * blocks; }
  TWINOPS_INLINE int threads() const { return tiles * at_once * warps() * kWarp; }
};

inline constexpr std::int64_t kMaxStridedRows = 1 << 30;
inline constexpr std::int64_t kMaxStridedChunks = kWarp * kWarp;

// Whether neighbouring rows of every operand lie closer together than a row's own elements.
template <int N, int kAxes>
bool are_strided(const Rows<N, kAxes>& rows) {
  const int last = rows.outer.rank - 1;
  if (last < 0 || rows.rows > kMaxStridedRows) return false;
  const auto magnitude = [](std::int64_t x) { return x < 0 ? -x : x; };
  for (int k = 0; k < N; ++k)
    if (magnitude(rows.outer.stride[k][last]) >= magnitude(rows.step[k])) return false;
  return true;
}

// Whether these kernels take a call, as far as its rows and types say.
template <int N, int kAxes>
bool is_strided_call(const Rows<N, kAxes>& rows, const TypePair& types) {
  return rows.rows > 0 && rows.length > 0 && types.in == types.out &&
         rows.length <= kMaxStridedChunks * kFoldChunk && are_strided(rows);
}

// Whether V neighbouring rows move as one vector.
template <int N, int kAxes>
bool moves_in_vectors(const Rows<N, kAxes>& rows, const OperandMemory (&memory)[N], int V) {
  const int last = rows.outer.rank - 1;
  bool yes = rows.outer.size[last] % V == 0;
  for (int k = 0; k < N; ++k) {
    const auto begin = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory[k].data) /
                                                 memory[k].element);
    yes &= begin % V == 0 && rows.step[k] % V == 0 && rows.outer.stride[k][last] == 1;
    for (int axis = 0; axis < last; ++axis) yes &= rows.outer.stride[k][axis] % V == 0;
  }
  return yes;
}

// Threads that hold many values, more than 128 bytes of the compute type F, are few in a block, and
// the compiler is told how many blocks are to be at work
// (docs/lab/softmax-strided-kernels.md#threads-of-many-values).
template <class F, int kValues>
inline constexpr bool kHoldsMany = kValues * sizeof(F) > 128;
template <bool kMany>
inline constexpr int kStridedThreads = kMany ? 256 : 1024;
template <bool kMany, class F, int kValues>
inline constexpr int kStridedBlocks = !kMany                       ? 1
                                      : !kHoldsMany<F, kValues>    ? 4
                                      : kValues * sizeof(F) <= 192 ? 3
                                                                   : 2;

// The plan for threads that hold K elements of each of V rows of `element` bytes. The rows side by
// side are 128 bytes wide, or less where that leaves a block small enough for two to be at work.
template <bool kMany = false, int N, int kAxes>
StridedPlan plan_strided(const Rows<N, kAxes>& rows, int K, int V, int element, int device) {
  constexpr int kWide = 128, kNarrow = 64;
  constexpr int kMostWarps = kStridedThreads<kMany> / kWarp, kWarps = std::min(16, kMostWarps);
  const auto log2_at_least = [](std::int64_t n) {
    int log = 0;
    while (std::int64_t{1} << log < n) ++log;
    return log;
  };
  StridedPlan plan{};
  const std::int64_t length = rows.length, inner = rows.outer.size[rows.outer.rank - 1];
  plan.by_inner = FastDivide(inner);  // above 1: other axes are left out
  plan.chunks = static_cast<int>((length + kFoldChunk - 1) / kFoldChunk);
  plan.at_once = plan.blocks = 1;
  const std::int64_t chunk = std::min<std::int64_t>(length, kFoldChunk);
  const auto take = [&](int bytes) {
    plan.lanes_log = std::min(5, log2_at_least(std::max(1, bytes / (V * element))));
    plan.warps_log = log2_at_least((chunk + K * plan.places() - 1) / (K * plan.places()));
  };
  if (plan.chunks == 1) {
    // First a warp that has rows for itself, then a block small enough for two to be at work. Rows
    // that do not move in vectors need the width more, because their ends are parts of what memory
    // moves.
    const auto in_warp = [&](int bytes, int registers) {
      take(bytes);
      return chunk <= registers * plan.places();
    };
    const auto in = [&](int bytes, int warps) {
      take(bytes);
      return plan.warps() <= warps;
    };
    const int preferred = kMany ? 3 * K / 4 : K;  // registers; with fewer, more warps are at work
    bool done = false;
    if constexpr (kMany) {
      for (const int registers : {preferred, K})
        for (const int bytes : {kWide, kNarrow, kNarrow / 2})
          done = done || ((V > 1 || bytes >= kNarrow) && in_warp(bytes, registers));
      done = done || in(kNarrow, kMostWarps);
    } else {
      done = in(kWide, 1) || in(kNarrow, 1) || in(kWide, V == 1 ? kMostWarps : kWarps) ||
             in(kNarrow, kMostWarps);
    }
    if (!done) take(kNarrow / 2);
    // A thread's registers are filled before more lanes share a row.
    while (plan.lanes_log < 5 && preferred * plan.places() / 2 >= chunk) ++plan.lanes_log;
    plan.tiles = plan.warps_log == 0 ? kShortThreads / kWarp : 1;
    return plan;
  }
  plan.tiles = 1;
  const int largest = largest_cluster(device);
  const auto holds = [&](int bytes, int warps, int blocks) {  // the row, in registers
    take(bytes);
    plan.at_once = std::min(plan.chunks, warps >> plan.warps_log);
    if (plan.at_once == 0) return false;
    plan.blocks = std::min({blocks, largest, (plan.chunks + plan.at_once - 1) / plan.at_once});
    return plan.at_work() >= plan.chunks;
  };
  for (const int blocks : {kPortableBlocksOfRow, kMostBlocksOfRow})
    for (const int bytes : {kNarrow, kNarrow / 2})
      for (const int warps : {kWarps, kMostWarps})
        if (holds(bytes, warps, blocks)) return plan;
  // No plan holds the row in registers: it is read twice.
  if (holds(kNarrow, kWarps, kPortableBlocksOfRow) || plan.at_once > 0) return plan;
  holds(kNarrow / 2, kMostWarps, kPortableBlocksOfRow);
  return plan;
}

// Calls launch(number of registers) for rows of up to a chunk: the first multiple of kStep, up to
// K, that holds them, as a number that the compiler knows.
template <int K, int kStep, int kRegisters = kStep, class Launch>
void with_strided_registers(const StridedPlan& plan, std::int64_t length, Launch&& launch) {
  if constexpr (kRegisters < K)
    if (length > std::int64_t{plan.warps()} * plan.places() * kRegisters)
      return with_strided_registers<K, kStep, kRegisters + kStep>(plan, length, launch);
  launch(std::integral_constant<int, kRegisters>{});
}

inline unsigned strided_blocks(const StridedPlan& plan, std::int64_t rows, int V) {
  const std::int64_t of_block = std::int64_t{plan.lanes()} * V * plan.tiles;
  return static_cast<unsigned>((rows + of_block - 1) / of_block * plan.blocks);
}

// Launches over tiles; false, and nothing is done, where a block has not got the shared memory, or
// the device holds no cluster.
template <class Kernel, class Params>
bool launch_tiles(Kernel kernel, const Params& params, int V, std::size_t shared,
                  Execution& execution) {
  if (!fits_shared_memory(shared, execution.device.index)) return false;
  if (params.plan.blocks > 1 &&
      active_clusters(kernel, static_cast<unsigned>(params.plan.threads()), shared,
                      params.plan.blocks, execution.device.index) == 0)
    return false;
  launch_rows(execution, kernel, strided_blocks(params.plan, params.rows.rows, V),
              static_cast<unsigned>(params.plan.threads()), shared, params.plan.blocks, params);
  return true;
}

}  // namespace twinops
