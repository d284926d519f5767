// Divides rows over threads, for kernels that reduce a row and then write it. A kernel is a class
// with:
//
//   Part                 what a span of a row is reduced to; parts join with +
//   Kept                 what is kept from reduce() to write()
//   Kept kept(buffer, chunks), kept_size(chunks)
//                        that of a whole row, and the Computes of its buffer without another for
//                        each chunk
//   Kept cut_kept(chunk, maxima)
//                        that of a cut row, from buffers of a chunk and of a Compute for each chunk
//   Part reduce(row, begin, end, shift, kept)
//                        reduces chunks [begin, end); begin is a multiple of a power of two that
//                        covers them
//   bool is_out_of_range(part)
//                        whether the row must be reduced once more, with F shift_of(part)
//   void write(row, begin, end, part, shift, kept)
//                        writes the outputs of those chunks
//   void short_rows(begin, end, buffer)
//                        optional: takes rows [begin, end) of one chunk each; buffer holds
//                        short_buffer() elements, or is nullptr if that is 0
//   void end()           comes after the last write of a thread
//
// Many rows are taken whole. Few, long rows are cut at powers of two chunks, which gives the bits
// of the whole row.
#pragma once

#include <algorithm>

#include "kernels_cpu/runtime/parallel.hpp"
#include "numerics/fold.hpp"

namespace twinops {

inline constexpr std::int64_t kRowGrain = 1 << 13;  // elements that are worth a thread
inline constexpr std::int64_t kCutChunks = 16;      // chunks that are
inline constexpr std::int64_t kCutsAThread = 16;    // pieces, at most, of rows that are cut at once
inline constexpr std::int64_t kWholeChunks = 1024;  // at most, of a row that is taken whole

template <class Kernel>
TWINOPS_INLINE void whole_row(const Kernel& kernel, std::int64_t row, std::int64_t chunks,
                              typename Kernel::Kept& kept) {
  using F = typename Kernel::Compute;
  F shift = F(0);
  auto part = kernel.reduce(row, 0, chunks, shift, kept);
  if (kernel.is_out_of_range(part)) {
    shift = kernel.shift_of(part);
    part = kernel.reduce(row, 0, chunks, shift, kept);
  }
  kernel.write(row, 0, chunks, part, shift, kept);
}

// Takes rows one after the other. Those of one chunk need no buffer.
template <class Kernel>
TWINOPS_INLINE void whole_rows(const Kernel& kernel, std::int64_t begin, std::int64_t end,
                               std::int64_t length, typename Kernel::Compute* buffer) {
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  if constexpr (requires { kernel.short_buffer(); })
    if (chunks == 1) return kernel.short_rows(begin, end, buffer);
  for (std::int64_t r = begin; r < end; ++r) {
    typename Kernel::Kept kept = kernel.kept(buffer, chunks);
    whole_row(kernel, r, chunks, kept);
  }
}

// A row that is cut. Its parts join here.
template <class Kernel>
struct CutRow {
  typename Kernel::Part part;
  typename Kernel::Compute shift;
  bool ready;
};

// Takes rows [first, first + rows), cut into pieces of `piece` chunks.
template <class Kernel>
void cut_rows(const Kernel& kernel, Execution& execution, std::int64_t first, std::int64_t rows,
              std::int64_t chunks, std::int64_t piece) {
  using F = typename Kernel::Compute;
  using Part = typename Kernel::Part;
  const std::int64_t pieces = (chunks + piece - 1) / piece;
  const Workspace memory(
      execution, static_cast<std::size_t>(rows) * (sizeof(CutRow<Kernel>) + pieces * sizeof(Part) +
                                                   static_cast<std::size_t>(chunks) * sizeof(F)));
  auto* states = static_cast<CutRow<Kernel>*>(memory.data());
  auto* parts = reinterpret_cast<Part*>(states + rows);
  auto* values = reinterpret_cast<F*>(parts + rows * pieces);
  for (std::int64_t r = 0; r < rows; ++r) states[r] = {Part{}, F(0), false};
  const auto last = [&](std::int64_t u) {
    return (u + 1) * piece < chunks ? (u + 1) * piece : chunks;
  };
  // Reduces the rows that are not ready. Returns whether some must be reduced again.
  const auto reduce = [&] {
    parallel_ranges(execution, rows * pieces, 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t r = i / pieces, u = i % pieces;
        if (states[r].ready) continue;
        alignas(64) F buffer[kFoldChunk];
        typename Kernel::Kept kept = kernel.cut_kept(buffer, values + r * chunks);
        parts[i] = kernel.reduce(first + r, u * piece, last(u), states[r].shift, kept);
      }
    });
    bool again = false;
    for (std::int64_t r = 0; r < rows; ++r) {
      if (states[r].ready) continue;
      ChunkTree<Part> tree;
      for (std::int64_t u = 0; u < pieces; ++u) tree.add(parts[r * pieces + u]);
      states[r].part = tree.total();
      states[r].ready = !kernel.is_out_of_range(states[r].part);
      if (states[r].ready) continue;
      states[r].shift = kernel.shift_of(states[r].part);
      again = true;
    }
    return again;
  };
  if (reduce()) reduce();  // a row that is out of range even then holds a NaN
  parallel_ranges(execution, rows * pieces, 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t r = i / pieces, u = i % pieces;
      alignas(64) F buffer[kFoldChunk];
      typename Kernel::Kept kept = kernel.cut_kept(buffer, values + r * chunks);
      kernel.write(first + r, u * piece, last(u), states[r].part, states[r].shift, kept);
    }
    kernel.end();
  });
}

template <class Kernel>
void for_each_row(const Kernel& kernel, Execution& execution, std::int64_t rows,
                  std::int64_t length) {
  if (rows == 0 || length == 0) return;
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  const std::int64_t threads = thread_count(execution);
  const bool many = rows >= 4 * threads || threads == 1;
  if (chunks < 2 * kCutChunks || (many && chunks <= kWholeChunks)) {
    const std::int64_t grain = length < kRowGrain ? (kRowGrain + length - 1) / length : 1;
    using F = typename Kernel::Compute;
    const auto take = [&](std::int64_t begin, std::int64_t end, F* buffer) {
      whole_rows(kernel, begin, end, length, buffer);
      kernel.end();
    };
    std::int64_t size = chunks == 1 ? 0 : kernel.kept_size(chunks) + chunks;
    if constexpr (requires { kernel.short_buffer(); })
      if (chunks == 1) size = kernel.short_buffer();
    return parallel_ranges_with<F>(execution, rows, grain, 1, size, take);
  }
  // As few rows at once as keep the threads busy, so that what is used twice is still in a cache.
  const std::int64_t cuts = kCutsAThread * threads;
  const std::int64_t at_once = std::max<std::int64_t>(cuts * kCutChunks / chunks, 1);
  std::int64_t piece = kCutChunks;
  while (chunks / piece > cuts) piece *= 2;
  for (std::int64_t r = 0; r < rows; r += at_once)
    cut_rows(kernel, execution, r, std::min(at_once, rows - r), chunks, piece);
}

}  // namespace twinops
