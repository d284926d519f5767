// A tile of strided rows of softmax and log_softmax, a lane a row, and the steps of
// softmax_steps.hpp for a chunk of it. Included only by files that are compiled once for each
// instruction set.
#pragma once

#include "kernels_cpu/rows/strided_tiles.hpp"
#include "kernels_cpu/softmax/softmax_steps.hpp"

namespace twinops {

template <class Isa, class F>
struct SoftmaxTile {
  using V = Vec<F, Isa>;
  static constexpr int kCapacity = kTileBytes / static_cast<int>(sizeof(F));
  // Arrays hold the vector that begins at a tile's last row.
  static constexpr int kWidth = kTileWidth + V::kLanes;

  TWINOPS_INLINE void begin(int n) {
    width = n;
    pitch = (n + V::kLanes - 1) / V::kLanes * V::kLanes;
    special = false;
    for (int i = 0; i < pitch; i += V::kLanes) save(zeros + i, V(F(0)));
  }
  int width, pitch;
  const void* x;
  void* out;
  std::int64_t x_step, out_step;
  bool streamed;
  bool special;  // whether a row is not ordinary
  // For each row: the maximum of the current chunk and the scale of its weights; in `last`, the
  // inverse of its sum, its divisor, or what is subtracted from its elements.
  alignas(64) F max[kWidth], low[kWidth], magic[kWidth], last[kWidth];
  // Of rows of more chunks: the maximum, the division of the current chunk, and 1 or what its
  // results are multiplied with if it is far.
  alignas(64) F row_max[kWidth], divisor[kWidth], inverse[kWidth], far[kWidth];
  // Of each row, element after element. `sums` begins with those of the current chunk, then of
  // the rows; NaN if a row is not ordinary.
  alignas(64) F values[kCapacity + V::kLanes];
  alignas(64) F sums[kCapacity / kAddedAtOnce + kWidth];
  alignas(64) F weights[kAddedAtOnce * kWidth];  // of the current runs
  alignas(64) F zeros[kWidth];
  ChunkTree<SoftmaxPart<F>> trees[kCapacity / kFoldChunk];  // of rows of more chunks

  TWINOPS_INLINE LaneScale<V> scale(int i) const {
    return {load<Isa>(low + i), load<Isa>(magic + i)};
  }
  TWINOPS_INLINE bool ordinary(int r) const { return sums[r] == sums[r]; }
};

// What depends on the type of x alone.
template <class Isa, class In>
class SoftmaxTileOf {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Tile = SoftmaxTile<Isa, Compute>;

  // Reads elements [first, first + n) of every row, with their maxima and the scales that follow.
  static void read(Tile& t, std::int64_t first, int n) {
    for (int i = 0; i < t.pitch; i += V::kLanes) save(t.max + i, V(-kInfinity<Compute>));
    constexpr int kAtOnce = 4;
    const std::int64_t step = t.x_step;
    const In* x = static_cast<const In*>(t.x) + first * step;
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

 private:
  // Reads kCount elements of every row. The last vector of rows overlaps the one before it.
  template <int kCount>
  TWINOPS_INLINE static void read_elements(Tile& t, const In* x, Compute* to) {
    const std::int64_t step = t.x_step;
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
};

// In: one of the types whose weights are alike (WeighedAs).
template <class Isa, class In>
class SoftmaxTileSums {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Tile = SoftmaxTile<Isa, Compute>;

  // In the order of fold_lanewise. kSave: weights take the values' places. One loop makes weights
  // and another adds them, which is faster.
  template <bool kSave>
  static void add_up(Tile& t, int n) {
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

  template <bool kLog>
  static void close(Tile& t) {
    for (int i = 0; i < t.pitch; i += V::kLanes) {
      const V max = load<Isa>(t.max + i), sum = sum_of_ordinary(max, load<Isa>(t.sums + i));
      save(t.sums + i, sum);
      save(t.last + i, kLog ? sum_over_greatest<In>(max, sum) : V(Compute(1)) / sum);
    }
    for (int r = 0; r < t.width; ++r) {
      if constexpr (kLog) t.last[r] = log_of_normal(t.last[r], 0);
      t.special |= !t.ordinary(r);
    }
  }

 private:
  // Where the weights of element j of every row are; zeros if there is no such element.
  template <bool kSave>
  TWINOPS_INLINE static const Compute* weights_of(Tile& t, int j, int n, Compute* buffer) {
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
};

template <class Isa, bool kLog, class In, class Out>
class SoftmaxTileResults {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  using Tile = SoftmaxTile<Isa, Compute>;

  static void write(Tile& t, std::int64_t first, int n) {
    if constexpr (kLog)
      return write_logs(t, t.max, first, n);
    else
      put(t, first, n, [&](const Compute* from, int i) TWINOPS_INLINE_BODY {
        return Division<Out, V>{load<Isa>(t.sums + i), load<Isa>(t.last + i)}(load<Isa>(from + i));
      });
  }
  static void write_again(Tile& t, std::int64_t first, int n) {
    if constexpr (kLog) return write_logs(t, t.row_max, first, n);
    for (int r = 0; r < t.pitch; ++r) {
      t.divisor[r] = r < t.width && t.ordinary(r)
                         ? divisor_of_chunk<Out>(t.row_max[r], t.last[r], t.max[r])
                         : Compute(1);
      t.far[r] = is_far<Out>(t.divisor[r]) ? from_far(Compute(1)) : Compute(1);
    }
    for (int i = 0; i < t.pitch; i += V::kLanes) {
      const auto divide = Division<Out, V>::by(load<Isa>(t.divisor + i));
      save(t.divisor + i, divide.divisor);
      save(t.inverse + i, divide.inverse);
    }
    put(t, first, n, [&](const Compute* from, int i) TWINOPS_INLINE_BODY {
      return Division<Out, V>{load<Isa>(t.divisor + i), load<Isa>(t.inverse + i)}(
                 weight<In>(load<Isa>(from + i), t.scale(i))) *
             load<Isa>(t.far + i);
    });
  }

 private:
  [[gnu::noinline]] static void write_logs(Tile& t, const Compute* max, std::int64_t first, int n) {
    put(t, first, n, [&](const Compute* from, int i) TWINOPS_INLINE_BODY {
      return log_softmax(load<Isa>(from + i), load<Isa>(max + i), load<Isa>(t.last + i));
    });
  }
  // Writes elements [first, first + n) of the ordinary rows. f(from, i): the vector of rows i, i +
  // 1, ... of the element whose values or weights begin at `from`.
  template <class F>
  TWINOPS_INLINE static void put(const Tile& t, std::int64_t first, int n, F&& f) {
    Out* out = static_cast<Out*>(t.out) + first * t.out_step;
    const Compute* from = t.values;
    const int pitch = t.pitch;
    for (int j = 0; j < n; ++j, out += t.out_step, from += pitch) {
      if (!t.special) [[likely]] {
        write_chunk<true, true>(RowView<Out, Isa>{out, 1, t.streamed}, 0, t.width,
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
};

}  // namespace twinops
