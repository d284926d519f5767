// The backward passes along an axis that is not the last: tiles of row_tiles.hpp, a lane a row.
// Only files compiled once an instruction set include this.
//
// Memory: y and dy of rows of one chunk are read once, in runs of a tile's width, into a buffer;
// those of longer ones twice. dx is written once. Order: docs/softmax.md; the fold runs over
// vectors. Tried and left: buffers of half the size, whose runs are a line at a thousand elements:
// 1.7 times as long.
#pragma once

#include "kernels_cpu/row_tiles.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

template <class Isa, bool kLog, class In, class Out>
class GradColumns {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kRoom = kTileBytes / static_cast<int>(sizeof(Compute));

  GradColumns(const SoftmaxGradArguments& a, bool streamed) : a_(a), streamed_(streamed) {}

  void tile(std::int64_t row, int width) const {
    Tile t(width);
    const RowOffsets<3> at = row_offsets(a_.rows.outer, row);
    t.dx = static_cast<Out*>(a_.dx) + at.of[0];
    t.y = static_cast<const In*>(a_.y) + at.of[1];
    t.dy = static_cast<const In*>(a_.dy) + at.of[2];
    const std::int64_t length = a_.rows.length;
    if (length <= kFoldChunk) {
      const int n = static_cast<int>(length);
      read(t, 0, n);
      add_up(t, n);
      for (int i = 0; i < t.pitch; i += V::kLanes)  // no -0 leaves
        save(t.sum + i, load<Isa>(t.sum + i) + V(Compute(0)));
      return write(t, 0, n);
    }
    const auto size = [&](std::int64_t first) {
      return static_cast<int>(length - first < kFoldChunk ? length - first : kFoldChunk);
    };
    ChunkTree<Compute> trees[kRoom / kFoldChunk];
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      read(t, first, size(first));
      add_up(t, size(first));
      for (int r = 0; r < width; ++r) trees[r].add(t.sum[r]);
    }
    for (int r = 0; r < width; ++r) t.sum[r] = trees[r].total();
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      read(t, first, size(first));
      write(t, first, size(first));
    }
  }
  void end() const { isa::end_of_streams(); }

 private:
  struct Tile {
    explicit Tile(int n) : width(n), pitch((n + V::kLanes - 1) / V::kLanes * V::kLanes) {}
    int width, pitch;
    const In *y, *dy;
    Out* dx;
    alignas(64) Compute sum[kTileWidth];
    alignas(64) Compute ys[kRoom], dys[kRoom];
  };

  // Elements [first, first + n) of every row.
  TWINOPS_INLINE void read(Tile& t, std::int64_t first, int n) const {
    const int width = t.width, pitch = t.pitch;
    for (int j = 0; j < n; ++j) {
      const auto into = [&](Compute* to) {
        return [=](int i, V v) TWINOPS_INLINE_BODY { save(to + i, v); };
      };
      const std::int64_t at = first + j;
      read_run<Isa>(t.y + at * a_.rows.step[1], width, into(t.ys + j * pitch));
      read_run<Isa>(t.dy + at * a_.rows.step[2], width, into(t.dys + j * pitch));
    }
  }
  TWINOPS_INLINE void add_up(Tile& t, int n) const {
    const int pitch = t.pitch;
    for (int i = 0; i < pitch; i += V::kLanes)
      save(t.sum + i, fold_lanewise<Compute, Isa>(n, [&](int j) TWINOPS_INLINE_BODY {
             const int at = j * pitch + i;
             return grad_term<kLog>(load<Isa>(t.ys + at), load<Isa>(t.dys + at));
           }));
  }
  TWINOPS_INLINE void write(const Tile& t, std::int64_t first, int n) const {
    const V scale(static_cast<Compute>(a_.scale));
    const int width = t.width, pitch = t.pitch;
    for (int j = 0; j < n; ++j) {
      const RowView<Out, Isa> dx{t.dx + (first + j) * a_.rows.step[0], 1, streamed_};
      const Compute *const ys = t.ys + j * pitch, *const dys = t.dys + j * pitch;
      write_chunk<false, true>(dx, 0, width, [&](int i) TWINOPS_INLINE_BODY {
        return softmax_grad<kLog, In>(load<Isa>(ys + i), load<Isa>(dys + i), load<Isa>(t.sum + i),
                                      scale);
      });
    }
  }

  const SoftmaxGradArguments& a_;
  bool streamed_;
};

}  // namespace twinops
