// softmax and log_softmax of strided rows: tiles of strided_tiles.hpp, a lane a row. Included only
// by files that are compiled once for each instruction set.
//
// Memory: rows of one chunk are read once, in contiguous runs of a tile's width, into a buffer
// where their weights wait, and written once. Longer rows are read twice. Order: docs/softmax.md;
// the fold runs over vectors. Rows that are not ordinary are left to softmax_op.hpp.
// What was tried: docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
#pragma once

#include "kernels_cpu/softmax/softmax_op.hpp"
#include "kernels_cpu/softmax/softmax_tile.hpp"

namespace twinops {

template <class Isa, class F>
class StridedSoftmaxRows {
 public:
  using V = Vec<F, Isa>;
  using Buffer = SoftmaxTile<Isa, F>;
  using Tile = Buffer;
  using Steps = SoftmaxSteps<Isa, F>;

  // rows: the same, for those that are not ordinary.
  StridedSoftmaxRows(const SoftmaxArguments& a, const Steps& steps, bool streamed,
                     const SoftmaxRows<Isa, F>& rows)
      : a_(a), steps_(steps), streamed_(streamed), rows_(rows) {}

  void tile(std::int64_t row, int width, Tile& t) const {
    using Operands = SoftmaxArguments;
    t.begin(width);
    const auto at = row_offsets(a_.rows.outer, row);
    t.x = static_cast<const char*>(a_.x) + at.of[Operands::kX] * steps_.in_bytes;
    t.out = static_cast<char*>(a_.out) + at.of[Operands::kOut] * steps_.out_bytes;
    t.x_step = a_.rows.step[Operands::kX];
    t.out_step = a_.rows.step[Operands::kOut];
    t.streamed = streamed_;
    if (a_.rows.length <= kFoldChunk)
      one_chunk(t, static_cast<int>(a_.rows.length));
    else
      more_chunks(t);
    for (int r = 0; t.special && r < width; ++r)
      if (!t.ordinary(r)) rows_.any_row(row + r, t.values);
  }
  void end() const { isa::end_of_streams(); }

 private:
  void one_chunk(Tile& t, int n) const {
    steps_.read_tile(t, 0, n);
    (steps_.log ? steps_.add_up : steps_.add_up_and_save)(t, n);
    steps_.close_tile(t);
    steps_.write_tile(t, 0, n);
  }

  void more_chunks(Tile& t) const {
    using Part = SoftmaxPart<F>;
    const std::int64_t length = a_.rows.length;
    const auto size = [&](std::int64_t first) {
      return static_cast<int>(length - first < kFoldChunk ? length - first : kFoldChunk);
    };
    auto& trees = t.trees;
    for (int r = 0; r < t.width; ++r) trees[r] = {};
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      steps_.read_tile(t, first, size(first));
      steps_.add_up(t, size(first));
      for (int r = 0; r < t.width; ++r) trees[r].add(checked(t.max[r], t.sums[r]));
    }
    for (int r = 0; r < t.width; ++r) {
      const Part row = trees[r].total();
      t.row_max[r] = row.max;
      t.sums[r] = row.sum;
      if (kind_of_row(row.max) != RowKind::ordinary) {
        t.sums[r] = special_row<F>(RowKind::nan, false, steps_.log);
        t.special = true;
      } else {
        t.last[r] = steps_.last(row);
      }
    }
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      steps_.read_tile(t, first, size(first));
      steps_.write_tile_again(t, first, size(first));
    }
  }

  const SoftmaxArguments& a_;
  const Steps& steps_;
  const bool streamed_;
  const SoftmaxRows<Isa, F>& rows_;
};

}  // namespace twinops
