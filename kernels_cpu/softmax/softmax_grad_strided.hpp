// The backward passes for strided rows: tiles of strided_tiles.hpp, a lane a row. Included only by
// files that are compiled once for each instruction set.
//
// Memory: y and dy are read twice where they are, in contiguous runs of a tile's width, the second
// time from the second cache if a row has one chunk. Runs shorter than a vector are copied first.
// dx is written once. The next plane of few neighbours is prefetched, unless a run is shorter than
// a line. Order: docs/softmax.md; the fold runs over vectors.
// What was tried: docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
#pragma once

#include "kernels_cpu/rows/strided_tiles.hpp"
#include "kernels_cpu/softmax/grad_chunk.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

template <class Isa, bool kLog, class In, class Out>
class StridedGradRows {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kCapacity = kTileBytes / static_cast<int>(sizeof(Compute));

  StridedGradRows(const SoftmaxGradArguments& a, bool streamed)
      : a_(a),
        scale_(static_cast<Compute>(a.scale)),
        streamed_(streamed),
        fetches_(neighbours_of(a.rows) >= kLine && is_cold<In>(a.rows.rows, a.rows.length)) {}

  struct Buffer;
  void tile(std::int64_t row, int width, Buffer& buffer) const {
    const auto at = row_offsets(a_.rows.outer, row);
    using Operands = SoftmaxGradArguments;
    const Tile t{
        {static_cast<Out*>(a_.dx) + at.of[Operands::kDx], a_.rows.step[Operands::kDx]},
        {static_cast<const In*>(a_.y) + at.of[Operands::kY], a_.rows.step[Operands::kY]},
        {static_cast<const In*>(a_.dy) + at.of[Operands::kDy], a_.rows.step[Operands::kDy]},
        width};
    if (width < V::kLanes)
      rows_of(t, Packed{t, buffer}, buffer);
    else
      rows_of(t, InPlace{t}, buffer);
  }
  void end() const { isa::end_of_streams(); }

 private:
  using Run = GradRun<Isa, kLog, In>;
  static constexpr int kLine = 64 / static_cast<int>(sizeof(In));
  template <class T>
  struct Runs {  // side by side, `step` elements apart
    T* data;
    std::int64_t step;
    TWINOPS_INLINE T* at(std::int64_t j) const { return data + j * step; }
  };
  struct Tile {  // element j of every row is run j
    Runs<Out> dx;
    Runs<const In> y, dy;
    int width;
    TWINOPS_INLINE Run run(std::int64_t j) const { return {y.at(j), dy.at(j), width}; }
  };
  // Where a chunk of a tile is worked on. Runs of a vector or more: where they are.
  struct InPlace {
    const Tile& t;
    TWINOPS_INLINE Tile chunk(std::int64_t first, int) const {
      return {{t.dx.at(first), t.dx.step},
              {t.y.at(first), t.y.step},
              {t.dy.at(first), t.dy.step},
              t.width};
    }
    TWINOPS_INLINE void written(std::int64_t, int) const {}
  };
  // Shorter runs: in a buffer, a vector each.
  struct Packed {
    const Tile& t;
    Buffer& in;

    TWINOPS_INLINE Tile chunk(std::int64_t first, int n) const {
      constexpr int kLanes = V::kLanes;
      for (int j = 0; j < n; ++j) {
        isa::copy_padded<kLanes>(in.y + j * kLanes, t.y.at(first + j), t.width, In{});
        isa::copy_padded<kLanes>(in.dy + j * kLanes, t.dy.at(first + j), t.width, In{});
      }
      return {{in.dx, kLanes}, {in.y, kLanes}, {in.dy, kLanes}, kLanes};
    }
    TWINOPS_INLINE void written(std::int64_t first, int n) const {
      for (int j = 0; j < n; ++j)
        copy_partial<V::kLanes>(t.dx.at(first + j), in.dx + j * V::kLanes, t.width);
    }
  };
  struct Sums {
    TWINOPS_INLINE void begin(int width) {
      pitch = (width + V::kLanes - 1) / V::kLanes * V::kLanes;
      __builtin_memset(zeros, 0, static_cast<std::size_t>(width) * sizeof(In));
    }
    int pitch;
    alignas(64) In zeros[kTileWidth];  // for runs beyond the last
    // Those of the rows come first.
    alignas(64) Compute of[kCapacity / kAddedAtOnce + kTileWidth + V::kLanes];
  };

 public:
  struct Buffer {
    Sums sums;
    ChunkTree<Compute> trees[kCapacity / kFoldChunk];  // of rows of more than one chunk
    alignas(64) Out dx[kFoldChunk * V::kLanes];        // of short runs
    alignas(64) In y[kFoldChunk * V::kLanes], dy[kFoldChunk * V::kLanes];
  };

 private:
  template <class Place>
  void rows_of(const Tile& t, Place&& place, Buffer& buffer) const {
    Sums& sums = buffer.sums;
    const std::int64_t length = a_.rows.length;
    const auto size = [&](std::int64_t first) {
      return static_cast<int>(length - first < kFoldChunk ? length - first : kFoldChunk);
    };
    if (length <= kFoldChunk) {
      const int n = size(0);
      const Tile all = place.chunk(0, n);
      sums.begin(all.width);
      add_up(all, n, sums);
      for (int i = 0; i < sums.pitch; i += V::kLanes)  // no -0 leaves
        save(sums.of + i, load<Isa>(sums.of + i) + V(Compute(0)));
      write(all, n, sums.of);
      return place.written(0, n);
    }
    sums.begin(t.width < V::kLanes ? V::kLanes : t.width);
    auto& trees = buffer.trees;
    for (int r = 0; r < t.width; ++r) trees[r] = {};
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      add_up(place.chunk(first, size(first)), size(first), sums);
      for (int r = 0; r < t.width; ++r) trees[r].add(sums.of[r]);
    }
    for (int r = 0; r < t.width; ++r) sums.of[r] = trees[r].total();
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      write(place.chunk(first, size(first)), size(first), sums.of);
      place.written(first, size(first));
    }
  }

  // Sums n elements of every row. It and write() are not inlined, because they are large and called
  // from two places.
  [[gnu::noinline]] void add_up(const Tile& t, int n, Sums& sums) const {
    const bool fetches = fetches_ && t.width == neighbours_of(a_.rows);
    fold_runs<Compute, Isa>(n, t.width, sums.pitch, sums.of, [&](int j, int) TWINOPS_INLINE_BODY {
      const Run run = j < n ? t.run(j) : Run{sums.zeros, sums.zeros, t.width};
      if (fetches && j < n) fetch(t.run(j + n));
      return [run](int i) TWINOPS_INLINE_BODY { return run.term(i); };
    });
  }
  TWINOPS_INLINE static void fetch(const Run& run) {
    for (int i = 0; i < run.n; i += kLine) {
      __builtin_prefetch(run.y + i);
      __builtin_prefetch(run.dy + i);
    }
  }
  [[gnu::noinline]] void write(const Tile& t, int n, const Compute* sums) const {
    const auto sum = [sums](int i) TWINOPS_INLINE_BODY { return load<Isa>(sums + i); };
    for (int j = 0; j < n; ++j)
      t.run(j).template write<false>(RowView<Out, Isa>{t.dx.at(j), 1, streamed_}, scale_, sum);
  }

  const SoftmaxGradArguments& a_;
  Compute scale_;
  bool streamed_;
  bool fetches_;  // the next plane, where a tile is a whole plane
};

}  // namespace twinops
