// softmax and log_softmax along an axis that is not the last: tiles of row_tiles.hpp, a lane a row.
// Only files compiled once an instruction set include this.
//
// Memory: rows of one chunk are read once, in runs of a tile's width, into a buffer where their
// weights wait, and written once. Longer ones are read twice. Order: docs/softmax.md; the fold runs
// over vectors. Rows that are not ordinary are left to softmax_rows.hpp. Tried and left: buffers of
// four times the size, whose runs are longer: a fifth faster at a thousand elements, but half a MiB
// of the stack; a loop of its own where a fold needs no filling up, which is no faster.
#pragma once

#include "kernels_cpu/row_tiles.hpp"
#include "numerics/softmax_lanes.hpp"
#include "operators/softmax.hpp"

namespace twinops {

// Special: special(r) takes all of row r, whatever it holds.
template <class Isa, bool kLog, class In, class Out, class Special>
class SoftmaxColumns {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kRoom = kTileBytes / static_cast<int>(sizeof(Compute));

  SoftmaxColumns(const SoftmaxArguments& a, bool streamed, const Special& special)
      : a_(a), streamed_(streamed), special_(special) {}

  void tile(std::int64_t row, int width) const {
    Tile t(width);
    const RowOffsets<2> at = row_offsets(a_.rows.outer, row);
    t.out = static_cast<Out*>(a_.out) + at.of[0];
    t.x = static_cast<const In*>(a_.x) + at.of[1];
    if (a_.rows.length <= kFoldChunk)
      one_chunk(t, static_cast<int>(a_.rows.length));
    else
      more_chunks(t);
    for (int r = 0; t.special && r < width; ++r)
      if (!t.ordinary(r)) special_(row + r);
  }
  void end() const { isa::end_of_streams(); }

 private:
  // Arrays end with the vector that begins at a tile's last row.
  static constexpr int kWidth = kTileWidth + V::kLanes;
  struct Tile {
    explicit Tile(int n) : width(n), pitch((n + V::kLanes - 1) / V::kLanes * V::kLanes) {}
    int width, pitch;
    const In* x;
    Out* out;
    bool special = false;
    // Of each row: of the chunk at hand its maximum, what its weights are scaled by and their sum;
    // then the row's own sum, NaN if it is not ordinary, and what its elements are made with.
    alignas(64) Compute max[kWidth], low[kWidth], magic[kWidth], sum[kWidth], last[kWidth];
    alignas(64) Compute values[kRoom + V::kLanes];

    TWINOPS_INLINE V value(int j, int i) const { return load<Isa>(values + j * pitch + i); }
    TWINOPS_INLINE LaneScale<V> scale(int i) const {
      return {load<Isa>(low + i), load<Isa>(magic + i)};
    }
    TWINOPS_INLINE bool ordinary(int r) const { return sum[r] == sum[r]; }
  };

  // Elements [first, first + n) of every row, their maxima, and the scales that these give.
  TWINOPS_INLINE void read(Tile& t, std::int64_t first, int n) const {
    for (int i = 0; i < t.pitch; i += V::kLanes) save(t.max + i, V(-kInfinity<Compute>));
    for (int j = 0; j < n; ++j) {
      Compute* const to = t.values + j * t.pitch;
      read_run<Isa>(t.x + (first + j) * a_.rows.step[1], t.width,
                    [&](int i, V value) TWINOPS_INLINE_BODY {
                      save(to + i, value);
                      save(t.max + i, larger(load<Isa>(t.max + i), value));
                    });
    }
    for (int i = 0; i < t.pitch; i += V::kLanes) {
      const LaneScale<V> scale = lane_scale(load<Isa>(t.max + i));
      save(t.low + i, scale.low);
      save(t.magic + i, scale.magic);
    }
  }

  // The sums of the n elements that were read. kSave: their weights take their place.
  template <bool kSave>
  TWINOPS_INLINE void add_up(Tile& t, int n) const {
    for (int i = 0; i < t.pitch; i += V::kLanes) {
      const LaneScale<V> scale = t.scale(i);
      save(t.sum + i, fold_lanewise<Compute, Isa>(n, [&](int j) TWINOPS_INLINE_BODY {
             const V w = weight<In>(t.value(j, i), scale);
             if constexpr (kSave) save(t.values + j * t.pitch + i, w);
             return w;
           }));
    }
  }

  void one_chunk(Tile& t, int n) const {
    read(t, 0, n);
    add_up<!kLog>(t, n);
    for (int i = 0; i < t.pitch; i += V::kLanes) {
      const V max = load<Isa>(t.max + i), sum = sum_of_ordinary(max, load<Isa>(t.sum + i));
      save(t.sum + i, sum);
      save(t.last + i, kLog ? sum_over_mantissa<In>(max, sum) : V(Compute(1)) / sum);
    }
    for (int r = 0; r < t.width; ++r) {
      if constexpr (kLog) t.last[r] = log_of_normal(t.last[r], 0);
      t.special |= !t.ordinary(r);
    }
    write(t, 0, n, [&](int j, int i) TWINOPS_INLINE_BODY {
      const V value = t.value(j, i), last = load<Isa>(t.last + i);
      return kLog ? log_softmax(value, load<Isa>(t.max + i), last) : value * last;
    });
  }

  void more_chunks(Tile& t) const {
    using Part = SoftmaxPart<Compute>;
    const std::int64_t length = a_.rows.length;
    const auto size = [&](std::int64_t first) {
      return static_cast<int>(length - first < kFoldChunk ? length - first : kFoldChunk);
    };
    ChunkTree<Part> trees[kRoom / kFoldChunk];
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      read(t, first, size(first));
      add_up<false>(t, size(first));
      for (int r = 0; r < t.width; ++r) trees[r].add(checked(t.max[r], t.sum[r]));
    }
    alignas(64) Compute max[kWidth];
    for (int r = 0; r < t.width; ++r) {
      const Part row = trees[r].total();
      max[r] = row.max;
      t.sum[r] = row.sum;
      if (kind_of_row(row.max) != RowKind::ordinary) {
        t.sum[r] = special_row<Compute>(RowKind::nan, false, kLog);
        t.special = true;
      } else {
        t.last[r] = kLog ? log_of_sum<In>(row) : Compute(1) / row.sum;
      }
    }
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      read(t, first, size(first));
      alignas(64) Compute factor[kWidth];
      for (int r = 0; !kLog && r < t.width; ++r)
        factor[r] = t.ordinary(r) ? softmax_factor(max[r], t.last[r], t.max[r]) : Compute(0);
      write(t, first, size(first), [&](int j, int i) TWINOPS_INLINE_BODY {
        if constexpr (kLog)
          return log_softmax(t.value(j, i), load<Isa>(max + i), load<Isa>(t.last + i));
        else
          return weight<In>(t.value(j, i), t.scale(i)) * load<Isa>(factor + i);
      });
    }
  }

  // Elements [first, first + n) of the ordinary rows: f(j, i) gives the vector of element first + j
  // of rows i, i + 1, ...
  template <class F>
  TWINOPS_INLINE void write(const Tile& t, std::int64_t first, int n, F&& f) const {
    Out* out = t.out + first * a_.rows.step[0];
    for (int j = 0; j < n; ++j, out += a_.rows.step[0]) {
      if (!t.special) [[likely]] {
        write_chunk<true, true>(RowView<Out, Isa>{out, 1, streamed_}, 0, t.width,
                                [&](int i) TWINOPS_INLINE_BODY { return f(j, i); });
        continue;
      }
      Out ys[V::kLanes];
      for (int r = 0; r < t.width; ++r) {
        if (!t.ordinary(r)) continue;
        store_canonical<Isa>(ys, f(j, r));
        out[r] = ys[0];
      }
    }
  }

  const SoftmaxArguments& a_;
  bool streamed_;
  const Special& special_;
};

}  // namespace twinops
