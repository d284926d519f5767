// The backward passes for strided rows: tiles of strided_tiles.hpp, a lane a row, for elements of
// all types that are computed in F. Included only by files that are compiled once for each
// instruction set.
//
// Memory: y and dy are read twice where they are, in contiguous runs of a tile's width, the second
// time from the second cache if a row has one chunk. Runs shorter than a vector are copied first.
// dx is written once. The next plane of few neighbours is prefetched, unless a run is shorter than
// a line. Order: docs/softmax.md; the fold runs over vectors.
// What was tried: docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
#pragma once

#include "kernels_cpu/rows/strided_tiles.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {

template <class Isa, class F>
class StridedGradRows {
 public:
  using V = Vec<F, Isa>;
  using Steps = GradSteps<Isa, F>;
  static constexpr int kCapacity = kTileBytes / static_cast<int>(sizeof(F));

  StridedGradRows(const SoftmaxGradArguments& a, const Steps& steps, bool streamed)
      : a_(a),
        steps_(steps),
        scale_(static_cast<F>(a.scale)),
        streamed_(streamed),
        fetches_(neighbours_of(a.rows) >= 64 / steps.in_bytes &&
                 is_cold(steps.in_bytes, a.rows.rows, a.rows.length)) {}

  struct Buffer {
    // Of the current chunk; those of the rows come first.
    alignas(64) F sums[kCapacity / kAddedAtOnce + kTileWidth + V::kLanes];
    alignas(64) char zeros[kTileWidth * sizeof(F)];           // for runs beyond the last
    ChunkTree<F> trees[kCapacity / kFoldChunk];               // of rows of several chunks
    alignas(64) char dx[kFoldChunk * V::kLanes * sizeof(F)];  // of short runs
    alignas(64) char y[sizeof(dx)], dy[sizeof(dx)];
  };

  void tile(std::int64_t row, int width, Buffer& buffer) const {
    using Operands = SoftmaxGradArguments;
    const auto offsets = row_offsets(a_.rows.outer, row);
    const auto at = [&](const void* data, int k, int bytes) {
      return static_cast<const char*>(data) + offsets.of[k] * bytes;
    };
    const GradTile t{const_cast<char*>(at(a_.dx, Operands::kDx, steps_.out_bytes)),
                     at(a_.y, Operands::kY, steps_.in_bytes),
                     at(a_.dy, Operands::kDy, steps_.in_bytes),
                     a_.rows.step[Operands::kDx],
                     a_.rows.step[Operands::kY],
                     a_.rows.step[Operands::kDy],
                     width};
    const std::int64_t length = a_.rows.length;
    const int pitch = (width + V::kLanes - 1) / V::kLanes * V::kLanes;
    __builtin_memset(buffer.zeros, 0, static_cast<std::size_t>(pitch) * sizeof(F));
    F* const sums = buffer.sums;
    if (length <= kFoldChunk) {
      const int n = static_cast<int>(length);
      const GradTile all = chunk(t, 0, n, buffer);
      add_up(all, n, buffer, pitch);
      for (int i = 0; i < pitch; i += V::kLanes)  // no -0 leaves
        save(sums + i, load<Isa>(sums + i) + V(F(0)));
      return write(t, all, 0, n, buffer);
    }
    const auto size = [&](std::int64_t first) {
      return static_cast<int>(length - first < kFoldChunk ? length - first : kFoldChunk);
    };
    auto& trees = buffer.trees;
    for (int r = 0; r < width; ++r) trees[r] = {};
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      add_up(chunk(t, first, size(first), buffer), size(first), buffer, pitch);
      for (int r = 0; r < width; ++r) trees[r].add(sums[r]);
    }
    for (int r = 0; r < width; ++r) sums[r] = trees[r].total();
    for (std::int64_t first = 0; first < length; first += kFoldChunk)
      write(t, chunk(t, first, size(first), buffer), first, size(first), buffer);
  }
  void end() const { isa::end_of_streams(); }

 private:
  TWINOPS_INLINE static bool is_packed(const GradTile& t) { return t.width < V::kLanes; }

  // Elements [first, first + n) of a tile: where they are, or runs shorter than a vector in the
  // buffer, a vector each.
  GradTile chunk(const GradTile& t, std::int64_t first, int n, Buffer& in) const {
    const int in_bytes = steps_.in_bytes;
    const char* const y = t.y + first * t.y_step * in_bytes;
    const char* const dy = t.dy + first * t.dy_step * in_bytes;
    if (!is_packed(t))
      return {t.dx + first * t.dx_step * steps_.out_bytes,
              y,
              dy,
              t.dx_step,
              t.y_step,
              t.dy_step,
              t.width};
    for_width<F>(in_bytes, [&]<int kBytes>() {
      using Word = WordOf<kBytes>;
      for (int j = 0; j < n; ++j) {
        const auto pack = [&](char* to, const char* from, std::int64_t step) TWINOPS_INLINE_BODY {
          isa::copy_padded<V::kLanes>(reinterpret_cast<Word*>(to) + j * V::kLanes,
                                      reinterpret_cast<const Word*>(from) + j * step, t.width,
                                      Word{});
        };
        pack(in.y, y, t.y_step);
        pack(in.dy, dy, t.dy_step);
      }
    });
    return {in.dx, in.y, in.dy, V::kLanes, V::kLanes, V::kLanes, V::kLanes};
  }
  TWINOPS_INLINE void add_up(const GradTile& chunk, int n, Buffer& buffer, int pitch) const {
    const bool fetches = fetches_ && chunk.width == neighbours_of(a_.rows);
    steps_.add_up(chunk, n, buffer.zeros, fetches, pitch, buffer.sums);
  }
  void write(const GradTile& t, const GradTile& chunk, std::int64_t first, int n,
             Buffer& buffer) const {
    steps_.write_tile(chunk, n, scale_, buffer.sums, streamed_);
    if (!is_packed(t)) return;
    for_width<F>(steps_.out_bytes, [&]<int kBytes>() {
      using Word = WordOf<kBytes>;
      auto* const to = reinterpret_cast<Word*>(t.dx) + first * t.dx_step;
      for (int j = 0; j < n; ++j)
        copy_partial<V::kLanes>(to + j * t.dx_step,
                                reinterpret_cast<const Word*>(buffer.dx) + j * V::kLanes, t.width);
    });
  }

  const SoftmaxGradArguments& a_;
  const Steps& steps_;
  const F scale_;
  const bool streamed_;
  const bool fetches_;  // the next plane, where a tile is a whole plane
};

}  // namespace twinops
