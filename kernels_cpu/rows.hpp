// Rows over threads, for kernels that reduce along a row and then write it. A kernel is a class:
//   Part                                    what a stretch of a row is reduced to; parts join with
//   + Part reduce(row, begin, end, shift)     chunks [begin, end) of a row; begin is a multiple of
//   a
//                                           power of two that covers them
//   bool is_far(part)                       the row must be reduced again, with this shift:
//   F shift_of(part)
//   void write(row, begin, end, part, shift)  those chunks' outputs
//   void short_rows(begin, end)             where there is one: all of rows [begin, end), each of
//                                           one chunk
//   void end()                              after the last of what a thread writes
// Rows that are many are whole; rows that are few and long are cut at powers of two, so the bits
// are those of the whole row.
#pragma once

#include "kernels_cpu/parallel.hpp"
#include "numerics/fold.hpp"

namespace twinops {

inline constexpr std::int64_t kRowGrain = 1 << 13;  // elements that are worth a thread
inline constexpr std::int64_t kCutChunks = 16;      // chunks that are

template <class Kernel>
TWINOPS_INLINE void whole_row(const Kernel& kernel, std::int64_t row, std::int64_t chunks) {
  using F = typename Kernel::Compute;
  F shift = F(0);
  typename Kernel::Buffer kept;
  auto part = kernel.reduce(row, 0, chunks, shift, kept);
  if (kernel.is_far(part)) {
    shift = kernel.shift_of(part);
    part = kernel.reduce(row, 0, chunks, shift, kept);
  }
  kernel.write(row, 0, chunks, part, shift, kept);
}

// Rows one after the other.
template <class Kernel>
TWINOPS_INLINE void whole_rows(const Kernel& kernel, std::int64_t begin, std::int64_t end,
                               std::int64_t length) {
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  if constexpr (requires { kernel.short_rows(begin, end); })
    if (chunks == 1) return kernel.short_rows(begin, end);
  for (std::int64_t r = begin; r < end; ++r) whole_row(kernel, r, chunks);
}

// A row that is cut: its parts join here.
template <class Kernel>
struct CutRow {
  typename Kernel::Part part;
  typename Kernel::Compute shift;
  bool ready;
};

template <class Kernel>
void cut_rows(const Kernel& kernel, Execution& execution, std::int64_t rows, std::int64_t chunks,
              std::int64_t unit) {
  using F = typename Kernel::Compute;
  using Part = typename Kernel::Part;
  const std::int64_t units = (chunks + unit - 1) / unit;
  const Workspace memory(
      execution, static_cast<std::size_t>(rows) * (sizeof(CutRow<Kernel>) + units * sizeof(Part)));
  auto* states = static_cast<CutRow<Kernel>*>(memory.data());
  auto* parts = reinterpret_cast<Part*>(states + rows);
  for (std::int64_t r = 0; r < rows; ++r) states[r] = {Part{}, F(0), false};
  const auto last = [&](std::int64_t u) {
    return (u + 1) * unit < chunks ? (u + 1) * unit : chunks;
  };
  for (bool again = true; again;) {
    again = false;
    parallel_ranges(execution, rows * units, 1, 1, [&](std::int64_t begin, std::int64_t end) {
      typename Kernel::NoBuffer none;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t r = i / units, u = i % units;
        if (!states[r].ready) parts[i] = kernel.reduce(r, u * unit, last(u), states[r].shift, none);
      }
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      if (states[r].ready) continue;
      ChunkTree<Part> tree;
      for (std::int64_t u = 0; u < units; ++u) tree.add(parts[r * units + u]);
      states[r].part = tree.total();
      states[r].ready = !kernel.is_far(states[r].part);
      if (states[r].ready) continue;
      states[r].shift = kernel.shift_of(states[r].part);
      again = true;
    }
  }
  parallel_ranges(execution, rows * units, 1, 1, [&](std::int64_t begin, std::int64_t end) {
    typename Kernel::NoBuffer none;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t r = i / units, u = i % units;
      kernel.write(r, u * unit, last(u), states[r].part, states[r].shift, none);
    }
    kernel.end();
  });
}

// Whether rows are taken whole: they are many, or too short to be cut.
TWINOPS_INLINE bool are_whole(std::int64_t rows, std::int64_t chunks, std::int64_t threads) {
  return rows >= 4 * threads || threads == 1 || chunks < 2 * kCutChunks;
}

template <class Kernel>
void for_each_row(const Kernel& kernel, Execution& execution, std::int64_t rows,
                  std::int64_t length) {
  if (rows == 0 || length == 0) return;
  const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
  const std::int64_t threads = thread_count(execution);
  if (are_whole(rows, chunks, threads)) {
    const std::int64_t grain = length < kRowGrain ? (kRowGrain + length - 1) / length : 1;
    parallel_ranges(execution, rows, grain, 1, [&](std::int64_t begin, std::int64_t end) {
      whole_rows(kernel, begin, end, length);
      kernel.end();
    });
    return;
  }
  std::int64_t unit = kCutChunks;
  while (rows * (chunks / unit) > 16 * threads) unit *= 2;
  cut_rows(kernel, execution, rows, chunks, unit);
}

}  // namespace twinops
