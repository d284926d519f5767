// softmax and log_softmax of strided rows: tiles of strided_tiles.hpp, a lane a row. Included only
// by files that are compiled once for each instruction set.
//
// Memory: rows of one chunk are read once, in contiguous runs of a tile's width, into a buffer
// where their weights wait, and written once. Longer rows are read twice. Order: docs/softmax.md;
// the fold runs over vectors. Rows that are not ordinary are left to softmax_op.hpp.
// What was tried: docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
#pragma once

#include "kernels_cpu/rows/strided_tiles.hpp"
#include "numerics/softmax_lanes.hpp"
#include "operators/softmax.hpp"

namespace twinops {

// Special: special(r, buffer) takes row r, whatever it holds; buffer: of kCapacity Computes.
template <class Isa, bool kLog, class In, class Out, class Special>
class StridedSoftmaxRows {
 public:
  using Operands = SoftmaxArguments;
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kCapacity = kTileBytes / static_cast<int>(sizeof(Compute));

  StridedSoftmaxRows(const SoftmaxArguments& a, bool streamed, const Special& special)
      : a_(a), streamed_(streamed), special_(special) {}

  struct Buffer;
  void tile(std::int64_t row, int width, Buffer& t) const {
    t.begin(width);
    const auto at = row_offsets(a_.rows.outer, row);
    t.out = static_cast<Out*>(a_.out) + at.of[Operands::kOut];
    t.x = static_cast<const In*>(a_.x) + at.of[Operands::kX];
    if (a_.rows.length <= kFoldChunk)
      one_chunk(t, static_cast<int>(a_.rows.length));
    else
      more_chunks(t);
    for (int r = 0; t.special && r < width; ++r)
      if (!t.ordinary(r)) special_(row + r, t.values);
  }
  void end() const { isa::end_of_streams(); }

 private:
  // Arrays hold the vector that begins at a tile's last row.
  static constexpr int kWidth = kTileWidth + V::kLanes;
  using Tile = Buffer;

 public:
  struct Buffer {
    TWINOPS_INLINE void begin(int n) {
      width = n;
      pitch = (n + V::kLanes - 1) / V::kLanes * V::kLanes;
      special = false;
      for (int i = 0; i < pitch; i += V::kLanes) save(zeros + i, V(Compute(0)));
    }
    int width, pitch;
    const In* x;
    Out* out;
    bool special;
    // For each row: the maximum of the current chunk and the scale of its weights; in `last`, the
    // inverse of its sum, the divisor of the chunk, or what is subtracted from its elements.
    alignas(64) Compute max[kWidth], low[kWidth], magic[kWidth], last[kWidth];
    // Of each row, element after element. `sums` begins with those of the current chunk, then of
    // the rows; NaN if a row is not ordinary.
    alignas(64) Compute values[kCapacity + V::kLanes];
    alignas(64) Compute sums[kCapacity / kAddedAtOnce + kWidth];
    alignas(64) Compute weights[kAddedAtOnce * kWidth];  // of the current runs
    alignas(64) Compute zeros[kWidth];
    ChunkTree<SoftmaxPart<Compute>> trees[kCapacity / kFoldChunk];  // of rows of more chunks

    TWINOPS_INLINE LaneScale<V> scale(int i) const {
      return {load<Isa>(low + i), load<Isa>(magic + i)};
    }
    TWINOPS_INLINE bool ordinary(int r) const { return sums[r] == sums[r]; }
  };

 private:
  // Reads elements [first, first + n) of every row, with their maxima and the scales that follow.
  TWINOPS_INLINE void read(Tile& t, std::int64_t first, int n) const {
    for (int i = 0; i < t.pitch; i += V::kLanes) save(t.max + i, V(-kInfinity<Compute>));
    constexpr int kAtOnce = 4;
    const std::int64_t step = a_.rows.step[Operands::kX];
    const In* x = t.x + first * step;
    Compute* to = t.values;
    const int pitch = t.pitch;
    int j = 0;
    for (; j + kAtOnce <= n; j += kAtOnce, x += kAtOnce * step, to += kAtOnce * pitch)
      read_elements<kAtOnce>(t, x, to);
    for (; j < n; ++j, x += step, to += pitch) read_elements<1>(t, x, to);
    for (int i = 0; i < pitch; i += V::kLanes) {
      const LaneScale<V> scale = lane_scale(load<Isa>(t.max + i));
      save(t.low + i, scale.low);
      save(t.magic + i, scale.magic);
    }
  }

  // Reads kCount elements of every row. The last vector of rows overlaps the one before it.
  template <int kCount>
  TWINOPS_INLINE void read_elements(Tile& t, const In* x, Compute* to) const {
    const std::int64_t step = a_.rows.step[Operands::kX];
    const int width = t.width, pitch = t.pitch;
    const auto put = [&](int i, auto&& value) TWINOPS_INLINE_BODY {
      V max = load<Isa>(t.max + i);
      for (int k = 0; k < kCount; ++k) {
        const V v = value(k);
        save(to + k * pitch + i, v);
        max = larger(max, v);
      }
      save(t.max + i, max);
    };
    const auto rows = [&](int i) TWINOPS_INLINE_BODY {
      put(i, [&](int k) TWINOPS_INLINE_BODY { return load<Isa>(x + k * step + i); });
    };
    if (width < V::kLanes) {
      return put(0,
                 [&](int k) TWINOPS_INLINE_BODY { return load_partial<Isa>(x + k * step, width); });
    }
    int i = 0;
    for (; i + V::kLanes <= width; i += V::kLanes) rows(i);
    if (i == width) return;
    for (int k = 0; k < kCount; ++k) save(to + k * pitch + i, V(-kInfinity<Compute>));
    rows(width - V::kLanes);
  }

  // Sums the weights of the n elements that were read, in the order of fold_lanewise. kSave:
  // weights take the values' places. One loop makes weights and another adds them, which is faster.
  template <bool kSave>
  TWINOPS_INLINE void add_up(Tile& t, int n) const {
    const int pitch = t.pitch;
    if (pitch == V::kLanes) {  // faster than as runs: the scales stay in registers
      const LaneScale<V> scale = t.scale(0);
      const V sum = fold_lanewise<Compute, Isa>(n, [&](int j) TWINOPS_INLINE_BODY {
        const V w = weight<In>(load<Isa>(t.values + j * V::kLanes), scale);
        if constexpr (kSave) save(t.values + j * V::kLanes, w);
        return w;
      });
      return save(t.sums, sum);
    }
    fold_runs<Compute, Isa>(n, pitch, pitch, t.sums, [&](int j, int k) TWINOPS_INLINE_BODY {
      const Compute* const w = weights_of<kSave>(t, j, n, t.weights + k * pitch);
      return [w](int i) TWINOPS_INLINE_BODY { return load<Isa>(w + i); };
    });
  }

  // Where the weights of element j of every row are; zeros if there is no such element.
  template <bool kSave>
  TWINOPS_INLINE const Compute* weights_of(Tile& t, int j, int n, Compute* buffer) const {
    if (j >= n) return t.zeros;
    const int pitch = t.pitch;
    Compute* const from = t.values + j * pitch;
    for (int i = 0; i < pitch; i += V::kLanes) {
      const V w = weight<In>(load<Isa>(from + i), t.scale(i));
      save(buffer + i, w);
      if constexpr (kSave) save(from + i, w);
    }
    return buffer;
  }

  void one_chunk(Tile& t, int n) const {
    read(t, 0, n);
    add_up<!kLog>(t, n);
    for (int i = 0; i < t.pitch; i += V::kLanes) {
      const V max = load<Isa>(t.max + i), sum = sum_of_ordinary(max, load<Isa>(t.sums + i));
      save(t.sums + i, sum);
      save(t.last + i, kLog ? sum_over_greatest<In>(max, sum) : V(Compute(1)) / sum);
    }
    for (int r = 0; r < t.width; ++r) {
      if constexpr (kLog) t.last[r] = log_of_normal(t.last[r], 0);
      t.special |= !t.ordinary(r);
    }
    write(t, 0, n, [&](const Compute* from, int i) TWINOPS_INLINE_BODY {
      const V value = load<Isa>(from + i), last = load<Isa>(t.last + i);
      if constexpr (kLog)
        return log_softmax(value, load<Isa>(t.max + i), last);
      else
        return Division<Out, V>{load<Isa>(t.sums + i), last}(value);
    });
  }

  void more_chunks(Tile& t) const {
    using Part = SoftmaxPart<Compute>;
    const std::int64_t length = a_.rows.length;
    const auto size = [&](std::int64_t first) {
      return static_cast<int>(length - first < kFoldChunk ? length - first : kFoldChunk);
    };
    auto& trees = t.trees;
    for (int r = 0; r < t.width; ++r) trees[r] = {};
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      read(t, first, size(first));
      add_up<true>(t, size(first));
      for (int r = 0; r < t.width; ++r) trees[r].add(checked(t.max[r], t.sums[r]));
    }
    alignas(64) Compute max[kWidth];
    for (int r = 0; r < t.width; ++r) {
      const Part row = trees[r].total();
      max[r] = row.max;
      t.sums[r] = row.sum;
      if (kind_of_row(row.max) != RowKind::ordinary) {
        t.sums[r] = special_row<Compute>(RowKind::nan, false, kLog);
        t.special = true;
      } else {
        t.last[r] = kLog ? log_of_sum<In>(row) : divisor_of_row<Out>(row.sum);
      }
    }
    for (std::int64_t first = 0; first < length; first += kFoldChunk) {
      read(t, first, size(first));
      // Of each row: the division of this chunk, and 1 or what it is multiplied with if it is far.
      alignas(64) Compute divisor[kWidth], inverse[kWidth], step[kWidth];
      for (int r = 0; !kLog && r < t.pitch; ++r) {
        divisor[r] = r < t.width && t.ordinary(r)
                         ? divisor_of_chunk<Out>(max[r], t.last[r], t.max[r])
                         : Compute(1);
        step[r] = is_far<Out>(divisor[r]) ? from_far(Compute(1)) : Compute(1);
      }
      for (int i = 0; !kLog && i < t.pitch; i += V::kLanes) {
        const auto divide = Division<Out, V>::by(load<Isa>(divisor + i));
        save(divisor + i, divide.divisor);
        save(inverse + i, divide.inverse);
      }
      write(t, first, size(first), [&](const Compute* from, int i) TWINOPS_INLINE_BODY {
        if constexpr (kLog)
          return log_softmax(load<Isa>(from + i), load<Isa>(max + i), load<Isa>(t.last + i));
        else
          return Division<Out, V>{load<Isa>(divisor + i), load<Isa>(inverse + i)}(
                     weight<In>(load<Isa>(from + i), t.scale(i))) *
                 load<Isa>(step + i);
      });
    }
  }

  // Writes elements [first, first + n) of the ordinary rows. f(from, i): the vector of rows i, i +
  // 1, ... of the element whose values or weights begin at `from`.
  template <class F>
  TWINOPS_INLINE void write(const Tile& t, std::int64_t first, int n, F&& f) const {
    Out* out = t.out + first * a_.rows.step[Operands::kOut];
    const Compute* from = t.values;
    const int pitch = t.pitch;
    for (int j = 0; j < n; ++j, out += a_.rows.step[Operands::kOut], from += pitch) {
      if (!t.special) [[likely]] {
        write_chunk<true, true>(RowView<Out, Isa>{out, 1, streamed_}, 0, t.width,
                                [&](int i) TWINOPS_INLINE_BODY { return f(from, i); });
        continue;
      }
      Out ys[V::kLanes];
      for (int r = 0; r < t.width; ++r) {
        if (!t.ordinary(r)) continue;
        store_canonical<Isa>(ys, f(from, r));
        out[r] = ys[0];
      }
    }
  }

  const SoftmaxArguments& a_;
  bool streamed_;
  const Special& special_;
};

}  // namespace twinops
