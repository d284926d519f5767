// Which kernel takes a row of the softmax family whose elements lie side by side, as tables with
// the limits of every kernel. dispatch.cuh and grad_dispatch.cuh launch by these tables, and
// `twinops explain` prints them. A row takes the first line that it fits, or, where the device has
// no room for that kernel, the next one. The limits were measured: docs/lab/softmax-warp-kernel.md,
// docs/lab/softmax-block-kernel.md, docs/lab/softmax-grad-kernels.md.
//
// No header of CUDA's.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels_cuda/rows/lane_shapes.hpp"
#include "operators/types.hpp"

namespace twinops {

enum class Path {
  staged,
  warp,
  two_chunks,
  remainder,
  block,
  block_pairs,
  cluster,
  cluster_pairs,
  grid,
  two_pass
};
struct PathText {
  const char *name, *what;
};
inline constexpr PathText kPaths[] = {
    {"staged", "several rows a warp, by way of shared memory"},
    {"warp", "one row or several a warp"},
    {"two_chunks", "a warp a row, two chunks"},
    {"remainder", "a block a row, a chunk a warp, and a warp for what follows the whole chunks"},
    {"block", "a block a row, a chunk a warp"},
    {"block_pairs", "a block a row, two chunks a warp"},
    {"cluster", "a cluster of blocks a row, a chunk a warp"},
    {"cluster_pairs", "a cluster of blocks a row, two chunks a warp"},
    {"grid", "all blocks share all rows, a chunk a warp"},
    {"two_pass", "rows are read twice, in part"},
};

// What rows are, and sets of that. Rows that are simple have kernels of their own in lines that are
// for them alone.
inline constexpr unsigned kSimpleRows = 1;  // without scale and mask, a stride apart
inline constexpr unsigned kAxesRows = 2;    // without scale and mask, along several axes
inline constexpr unsigned kMaskedRows = 4;  // under a scale or a mask
inline constexpr unsigned kPlainRows = kSimpleRows | kAxesRows;
inline constexpr unsigned kEveryRow = kPlainRows | kMaskedRows;

// One kernel. It takes rows of more than `beyond` elements, up to `most`, whose last chunk has up
// to most_left elements.
struct PathLine {
  Path path = Path::two_pass;
  unsigned rows = kEveryRow;
  std::int64_t most = std::numeric_limits<std::int64_t>::max(), beyond = 0;
  int most_left = kFoldChunk;
  Shapes shapes = Shapes::coarse;  // of lanes, where `path` is staged or warp

  constexpr bool takes(std::int64_t length, unsigned row) const {
    return (rows & row) != 0 && length > beyond && length <= most &&
           (length - 1) % kFoldChunk < most_left;
  }
};

class PathTable {
 public:
  static constexpr int kMostLines = 20;

  constexpr void add(const PathLine& line) { lines_[size_++] = line; }
  // The same in chunks. simple: there are kernels for simple rows.
  constexpr void add_chunks(Path path, unsigned rows, bool simple, std::int64_t most,
                            std::int64_t beyond = 0) {
    const PathLine line{path, rows, most * kFoldChunk, beyond * kFoldChunk};
    if (simple) add({path, kSimpleRows, line.most, line.beyond});
    if (simple) rows &= ~kSimpleRows;
    if (rows != 0) add({path, rows, line.most, line.beyond});
  }
  constexpr int size() const { return size_; }
  constexpr const PathLine& operator[](int line) const { return lines_[line]; }

 private:
  PathLine lines_[kMostLines];
  int size_ = 0;
};

// Types of a call, and how its rows lie.
struct RowTypes {
  Type in, out;
  Alignment alignment;

  constexpr bool same() const { return in == out; }
  constexpr int bytes() const { return static_cast<int>(size_of(in)); }
  constexpr int vector() const { return alignment == Alignment::none ? 1 : 16 / bytes(); }
  constexpr bool unaligned() const { return alignment == Alignment::unaligned; }
};

// Whether rows that are aligned have kernels of their own, for an operator of x and y or its
// gradient. float64, and a y narrower than x, have one set for all rows that move in vectors.
constexpr bool has_aligned_kernels(Type x, Type y) {
  return size_of(y) < 8 && size_of(x) <= size_of(y);
}
constexpr Alignment kernels_alignment(Type x, Type y, Alignment rows) {
  return rows == Alignment::aligned && !has_aligned_kernels(x, y) ? Alignment::unaligned : rows;
}

// Warps of a gradient's largest block: chunks of y and dy that a multiprocessor has registers for.
constexpr int grad_warps(int bytes) { return 64 / bytes; }
inline constexpr int kMostChunksOfGrid = 1024;

// Elements of the second chunk of a row of two, at most, for one warp to take both.
constexpr int most_left_of_two(int V, bool unaligned) {
  if (V == 8) return unaligned ? kFoldChunk : 3 * 32 * V;
  return unaligned ? 2 * 32 * V - (V - 1) : 32 * V;
}

// softmax and log_softmax.
constexpr PathTable softmax_paths(RowTypes types) {
  const int bytes = types.bytes(), V = types.vector(), warps = row_warps(bytes);
  const bool same = types.same(), unaligned = types.unaligned(), half = bytes == 2;
  const bool in_vectors = V > 1 && same;
  // Simple rows have kernels of their own where instructions are the limit, which is in 16 bits.
  // Not where a maximum of unaligned rows may be out of range: counting along one axis then spills
  // registers (docs/lab/softmax-warp-kernel.md#rows-without-scale-and-mask).
  const bool simple = in_vectors && half, simple_pairs = simple && types.in == Type::float16;
  PathTable table;
  const auto add_short = [&](Path path, unsigned rows, Shapes shapes, int most) {
    table.add({path, rows, most, 0, kFoldChunk, shapes});
  };
  if (in_vectors && V >= 4 && unaligned) {
    if (half)
      add_short(Path::staged, kSimpleRows, Shapes::forward,
                most_staged_elements(Shapes::forward, bytes));
    add_short(Path::staged, half ? kMaskedRows : kSimpleRows | kMaskedRows, Shapes::masked,
              most_staged_elements(Shapes::masked, bytes));
  }
  if (in_vectors && V >= 4 && !unaligned)
    add_short(Path::warp, kSimpleRows, Shapes::forward, kFoldChunk);
  add_short(Path::warp, kEveryRow, same ? Shapes::masked : Shapes::coarse, kFoldChunk);
  if (in_vectors) {
    if (V >= 4)
      table.add({Path::two_chunks, kSimpleRows, kFoldChunk + most_left_of_two(V, unaligned)});
    // With more than 8 or 9 whole chunks two chunks a warp do better, and a remainder of nearly a
    // chunk gains less (docs/lab/softmax-block-kernel.md#remainders).
    const int left = unaligned ? kFoldChunk / 2 : kFoldChunk;
    if (half)
      table.add({Path::remainder, kSimpleRows, 8 * kFoldChunk, 0, std::min(left, kFoldChunk - 1)});
    // Blocks of float64 with more than eight warps are alone on a multiprocessor
    // (docs/lab/softmax-block-kernel.md#a-chunk-a-warp).
    table.add_chunks(Path::block, kPlainRows, simple && !unaligned, bytes == 4 ? 16 : 8);
    if (half) table.add({Path::remainder, kSimpleRows, (unaligned ? 9 : 10) * kFoldChunk, 0, left});
    table.add_chunks(Path::block, kMaskedRows, false, bytes == 8 ? 8 : 16);
    // From 17 chunks on two blocks are as good
    // (docs/lab/softmax-block-kernel.md#two-chunks-a-warp).
    if (half) table.add_chunks(Path::block_pairs, kPlainRows, simple_pairs, 16);
    // Clusters of more than eight blocks leave some multiprocessors idle
    // (docs/lab/softmax-block-kernel.md#warps-of-a-clusters-blocks).
    const int before_grid = half ? 128 : 0, of_cluster = kMostBlocksOfRow * warps;
    if (half) {
      table.add_chunks(Path::cluster_pairs, kPlainRows, simple_pairs, before_grid);
      table.add_chunks(Path::grid, kPlainRows, false, kMostChunksOfGrid, before_grid);
    }
    table.add_chunks(Path::cluster_pairs, kPlainRows, simple_pairs, 2 * of_cluster, before_grid);
  }
  if (V > 1) table.add_chunks(Path::cluster, kEveryRow, false, kMostBlocksOfRow * warps);
  if (in_vectors) table.add_chunks(Path::block, kEveryRow, simple && !unaligned, warps);
  table.add({Path::two_pass});
  return table;
}

// softmax_grad and log_softmax_grad. Under a mask they take the kernels of any rows
// (Alignment::none).
constexpr PathTable softmax_grad_paths(bool log, RowTypes types) {
  const int bytes = types.bytes(), V = types.vector(), warps = grad_warps(bytes);
  const int of_cluster = kMostBlocksOfRow * warps;
  const bool same = types.same(), unaligned = types.unaligned();
  PathTable table;
  const auto add = [&](Path path, int most, int beyond = 0) {
    if (most > beyond) table.add_chunks(path, kEveryRow, false, most, beyond);
  };
  if (V >= 4 && unaligned && same)
    table.add({Path::staged, kEveryRow, most_staged_elements(Shapes::backward, bytes), 0,
               kFoldChunk, Shapes::backward});
  table.add(
      {Path::warp, kEveryRow, kFoldChunk, 0, kFoldChunk, same ? Shapes::backward : Shapes::coarse});
  if (V > 1 && same) {
    // Blocks of 11 to 15 warps of float32 are alone on a multiprocessor. Clusters of smaller blocks
    // do better for unaligned rows (docs/lab/softmax-grad-kernels.md#blocks).
    const int of_block = std::min(warps, 16);
    const bool small = bytes == 4 && unaligned;
    if (small) add(Path::block, 10);
    add(Path::block, of_block, small ? 15 : 0);
    // Chunks up to which clusters do as well as the grid kernel
    // (docs/lab/softmax-grad-kernels.md#where-clusters-end). Not for float32's softmax_grad: a
    // multiprocessor's shared memory holds too few of its chunks.
    const bool has_grid = bytes == 2 || (bytes == 4 && log);
    const int before_grid = unaligned ? (log || types.in == Type::float16 ? 80 : 96)
                            : log     ? 256
                                      : 384;
    // Two chunks a warp where clusters of small blocks do not hold the row with one
    // (docs/lab/softmax-grad-kernels.md#two-chunks-a-warp).
    const int before_pairs = 128, clusters = has_grid ? before_grid : before_pairs;
    add(Path::cluster, std::min(clusters, before_pairs));
    if (has_grid) {
      add(Path::cluster_pairs, before_grid, before_pairs);
      add(Path::cluster, before_grid, before_pairs);
      add(Path::grid, kMostChunksOfGrid, before_grid);
    }
    add(Path::cluster, before_pairs, clusters);
    add(Path::cluster_pairs, 2 * of_cluster, std::max(clusters, before_pairs));
    add(Path::cluster, of_cluster, std::max(clusters, before_pairs));
    if (warps > of_block || small) add(Path::block, warps);
  } else if (V > 1) {
    add(Path::cluster, of_cluster);
  }
  table.add({Path::two_pass});
  return table;
}

// What a device has for kernels.
struct PathDevice {
  bool clusters = true;           // code for compute capability 9.0 or later
  int blocks = kMostBlocksOfRow;  // of the largest cluster
  bool waiting = true;            // shared memory for chunks that wait beside those in registers
  bool scratch = true;            // the caller lends memory for messages

  constexpr bool has_room(const PathLine& line, std::int64_t length, int warps) const {
    const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
    switch (line.path) {
      case Path::block_pairs:
        return clusters && waiting;
      case Path::cluster:
        return clusters && chunks <= std::int64_t{blocks} * warps;
      case Path::cluster_pairs:
        return clusters && waiting && chunks <= std::int64_t{2} * blocks * warps;
      case Path::grid:
        return clusters && waiting && scratch;
      default:
        return true;
    }
  }
};

// The line that takes a row on a device. staged: the rows may be staged: they lie side by side,
// with a length that is no multiple of a vector. warps: of the largest block.
constexpr int choose(const PathTable& table, std::int64_t length, unsigned row, bool staged,
                     int warps, const PathDevice& device = {}) {
  int line = 0;
  while (line < table.size() &&
         (!table[line].takes(length, row) || !device.has_room(table[line], length, warps) ||
          (table[line].path == Path::staged && !staged)))
    ++line;
  return line;
}

// Calls try_line.operator()<line>() for each of kLines lines until one returns true, as the last
// does.
template <int kLines, int kLine = 0, class TryLine>
void take_path(TryLine&& try_line) {
  if (try_line.template operator()<kLine>()) return;
  if constexpr (kLine + 1 < kLines) take_path<kLines, kLine + 1>(try_line);
}

}  // namespace twinops
