// Strided rows: rows along an axis that is not the last, whose neighbours are neighbours in memory.
// They go in tiles, a lane a row, so that memory is read in contiguous runs. Included only by files
// that are compiled once for each instruction set. A kernel is a class with:
//
//   Buffer                         what a tile is worked on in; nothing is constructed in it
//   void tile(row, width, buffer)  takes rows [row, row + width), neighbours in memory;
//                                  width <= kTileWidth
//   void end()                     comes after the last write of a thread
#pragma once

#include "kernels_cpu/rows/chunks.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/runtime/parallel.hpp"

namespace twinops {

inline constexpr int kTileWidth = 512;
inline constexpr int kTileBytes = 1 << 17;           // of a kernel's buffer
inline constexpr std::int64_t kTileGrain = 1 << 13;  // elements that are worth a thread
inline constexpr int kLeastNeighbours = 4;           // with fewer, vectors are too empty

template <int N>
TWINOPS_INLINE std::int64_t neighbours_of(const Rows<N>& rows) {
  return rows.outer.size[rows.outer.rank - 1];
}
template <int N>
TWINOPS_INLINE bool lie_side_by_side(const Rows<N>& rows) {
  const int last = rows.outer.rank - 1;
  if (last < 0 || rows.outer.size[last] < kLeastNeighbours) return false;
  for (int k = 0; k < N; ++k)
    if (rows.outer.stride[k][last] != 1) return false;
  return true;
}

// Takes all rows by tiles. capacity: how many elements of a tile's chunk fit the kernel's buffer.
template <class Kernel, int N>
void for_each_tile(const Kernel& kernel, Execution& execution, const Rows<N>& rows, int capacity) {
  constexpr int kLanes = Kernel::V::kLanes;
  const std::int64_t neighbours = neighbours_of(rows), runs = rows.rows / neighbours;
  const std::int64_t deep = rows.length < kFoldChunk ? rows.length : kFoldChunk;
  const std::int64_t enough = 4 * std::int64_t{thread_count(execution)};
  std::int64_t width = kTileWidth;
  const auto tiles = [&] { return (neighbours + width - 1) / width; };  // of a run
  while (width > kLanes && (width * deep > capacity || runs * tiles() < enough)) width /= 2;
  const std::int64_t n = tiles(), grain = kTileGrain / (width * deep) + 1;
  using Buffer = typename Kernel::Buffer;
  const auto take = [&](std::int64_t begin, std::int64_t end, Buffer* buffer) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i % n * width, left = neighbours - at;
      kernel.tile(i / n * neighbours + at, static_cast<int>(left < width ? left : width), *buffer);
    }
    kernel.end();
  };
  parallel_ranges_with<Buffer>(execution, runs * n, grain, 1, 1, take);
}

// How many vectors or runs are added before a sum is stored.
inline constexpr int kAddedAtOnce = 8;

// How many sums are left of n values: a power of two.
TWINOPS_INLINE int sums_of(int n) {
  int step = 1;
  while (kAddedAtOnce * step < n) step *= 2;
  return step;
}

// The fold of n vectors f(0), f(1), ..., lane by lane; n <= kFoldChunk.
template <class F, class Isa, class Term>
TWINOPS_INLINE Vec<F, Isa> fold_lanewise(int n, Term&& f) {
  using V = Vec<F, Isa>;
  V s[kFoldChunk / kAddedAtOnce];
  const int step = sums_of(n);
  const auto term = [&](int j) TWINOPS_INLINE_BODY { return j < n ? f(j) : V(F(0)); };
  for (int j = 0; j < step; ++j) {
    const V a = term(j) + term(j + 4 * step), b = term(j + step) + term(j + 5 * step);
    const V c = term(j + 2 * step) + term(j + 6 * step),
            d = term(j + 3 * step) + term(j + 7 * step);
    s[j] = (a + c) + (b + d);
  }
  for (int half = step / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) s[j] = s[j] + s[j + half];
  return s[0];
}

// The same for n runs of `width` elements, a vector at least, into sums[0, width). A run of sums
// takes `pitch` elements (whole vectors, +0 beyond `width`), and `sums` has room for sums_of(n) of
// them. f(j, k)(i): elements i, i + 1, ... of run j, which is the k-th of those that are added at
// once; +0 for j >= n.
template <class F, class Isa, class Runs>
TWINOPS_INLINE void fold_runs(int n, int width, int pitch, F* sums, Runs&& f) {
  using V = Vec<F, Isa>;
  const int step = sums_of(n);
  for (int j = 0; j < step; ++j) {
    using Run = decltype(f(0, 0));
    const Run runs[kAddedAtOnce] = {f(j, 0),
                                    f(j + step, 1),
                                    f(j + 2 * step, 2),
                                    f(j + 3 * step, 3),
                                    f(j + 4 * step, 4),
                                    f(j + 5 * step, 5),
                                    f(j + 6 * step, 6),
                                    f(j + 7 * step, 7)};
    F* const to = sums + j * pitch;
    const auto add = [&](int i) TWINOPS_INLINE_BODY {
      const auto pair = [&](int k) TWINOPS_INLINE_BODY { return runs[k](i) + runs[k + 4](i); };
      save(to + i, (pair(0) + pair(2)) + (pair(1) + pair(3)));
    };
    int i = 0;
    for (; i + V::kLanes <= width; i += V::kLanes) add(i);
    if (i == width) continue;
    save(to + i, V(F(0)));
    add(width - V::kLanes);  // overlaps the one before it
  }
  for (int half = step / 2; half > 0; half /= 2)
    for (int i = 0; i < half * pitch; i += V::kLanes)
      save(sums + i, load<Isa>(sums + i) + load<Isa>(sums + i + half * pitch));
}

}  // namespace twinops
