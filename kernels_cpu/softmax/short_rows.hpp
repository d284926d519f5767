// softmax and log_softmax of short rows, as many at once as a vector has lanes: a row's maximum,
// sum, division and logarithm are each a lane of a vector. Included only by files that are compiled
// once for each instruction set.
//
// Memory: rows are read once, into a buffer of padded rows, and written once from there. The last
// vector of a row overlaps the one before it. Order: docs/softmax.md. Rows that are not ordinary
// are left to softmax_op.hpp. Rows shorter than a vector leave lanes empty.
// What was tried: docs/lab/softmax-cpu.md#what-was-tried-in-the-kernels.
#pragma once

#include "kernels_cpu/rows/fold_transposed.hpp"
#include "kernels_cpu/softmax/chunk.hpp"

namespace twinops {

template <class Isa, bool kLog, class In, class Out>
class SoftmaxRowGroup {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kRows = V::kLanes;
  static constexpr auto kAll = static_cast<std::uint32_t>((std::uint64_t{1} << kRows) - 1);

  // SoftmaxSteps::Group
  template <bool kPlain>
  static std::uint32_t take(const SoftmaxArguments& a, std::int64_t begin, bool cold,
                            int& columns) {
    using Operands = SoftmaxArguments;
    SoftmaxRowGroup group(cold);
    const In* x[kRows];
    Out* out[kRows];
    for (int r = 0; r < kRows; ++r) {
      const auto offsets = row_offsets(a.rows.outer, begin + r);
      x[r] = static_cast<const In*>(a.x) + offsets.of[Operands::kX];
      out[r] = static_cast<Out*>(a.out) + offsets.of[Operands::kOut];
    }
    columns = static_cast<int>(a.rows.length);
    if constexpr (kPlain)
      return group.run_plain(columns, x, out);
    else
      return group.run_masked(a, begin, x, out, columns);
  }

 private:
  // cold: the outputs are in no cache yet.
  explicit SoftmaxRowGroup(bool cold) : cold_(cold) {}

  // Takes kRows rows of `columns` elements, 1 to kGroupColumns, which begin at x and out. Returns a
  // bit for each row that is not ordinary and was not written.
  TWINOPS_INLINE std::uint32_t run_plain(int columns, const In* const* x, Out* const* out) {
    return run(columns, x, out, [&](int r, Compute* to, int) TWINOPS_INLINE_BODY {
      return read_plain(x[r], columns, to);
    });
  }
  // The same for rows from `first` on under scale and masks. Sets `columns`, the number of elements
  // that are written: as many as count in the row where most do.
  TWINOPS_INLINE std::uint32_t run_masked(const SoftmaxArguments& a, std::int64_t first,
                                          const In* const* x, Out* const* out, int& columns) {
    // Kept as numbers, because a copy of an InputRow waits for the stores that made it.
    int used[kRows];
    std::int64_t mask_at[kRows];
    columns = 0;
    for (int r = 0; r < kRows; ++r) {
      const InputRow row = input_row(a, first + r, x[r]);
      mask_at[r] = row.mask_at;
      used[r] = row.used(0);
      if (used[r] > columns) columns = used[r];
    }
    if (columns == 0) return kAll;
    return run(columns, x, out, [&](int r, Compute* to, int pitch) TWINOPS_INLINE_BODY {
      return SoftmaxChunk<Isa, In>::row_of_group(a, x[r], used[r], mask_at[r], to, pitch);
    });
  }

  // read(r, to, pitch) puts the values of row r there, -infinity behind them up to `pitch`, and
  // returns their maximum.
  template <class Read>
  TWINOPS_INLINE std::uint32_t run(int columns, const In* const* x, Out* const* out, Read&& read) {
    const int pitch = padded<Compute, Isa>(columns);
    const bool cold = cold_;  // a member would be read again after every store
    V of_rows[kRows];
    for (int r = 0; r < kRows; ++r) of_rows[r] = read(r, values_ + r * pitch, pitch);
    const V max = largest_transposed(of_rows);
    const LaneScale<V> scale = lane_scale(max);
    save(low_, scale.low);
    save(magic_, scale.magic);
    for (int r = 0; r < kRows; ++r) {
      if (cold) fetch_to_write(RowView<Out, Isa>{out[r], 1}, columns);
      const LaneScale<V> of_row{V(low_[r]), V(magic_[r])};
      const Compute* const from = values_ + r * pitch;
      of_rows[r] = fold_saved<Compute, Isa>(
          kLog ? weights_ : values_ + r * pitch, columns, pitch, [&](int j) TWINOPS_INLINE_BODY {
            __builtin_prefetch(x[r] + kRows * columns + j);  // the next rows
            return weight<In>(load<Isa>(from + j), of_row);
          });
    }
    const V sum = sum_of_ordinary(max, fold_transposed(of_rows));
    std::uint32_t special = 0;
    if (isa::holds_nan(sum.v, sum.v, sum.v, sum.v)) [[unlikely]]
      special = nans_of(sum);
    if constexpr (kLog) {
      save(max_, max);
      save(last_, sum_over_greatest<In>(max, sum));
      for (int r = 0; r < kRows; ++r) last_[r] = log_of_normal(last_[r], 0);
    } else {
      save(sum_, sum);
      save(last_, V(Compute(1)) / sum);
    }
    for (int r = 0; r < kRows; ++r) {
      if (special >> r & 1) continue;
      const V last(last_[r]), of_row(kLog ? max_[r] : Compute(0));
      const Division<Out, V> divide{V(kLog ? Compute(0) : sum_[r]), last};
      const RowView<Out, Isa> to{out[r], 1};
      const Compute* const from = values_ + r * pitch;
      write_chunk<true, true>(to, 0, columns, [&](int j) TWINOPS_INLINE_BODY {
        const V value = load<Isa>(from + j);
        if constexpr (kLog)
          return log_softmax(value, of_row, last);
        else
          return divide(value);
      });
    }
    return special;
  }

  // Reads a row without scale and mask.
  TWINOPS_INLINE static V read_plain(const In* x, int columns, Compute* to) {
    if (columns < V::kLanes) {
      const V value = load_partial<Isa>(x, columns, narrow<In>(-kInfinity<Compute>));
      save(to, value);
      return value;
    }
    V max(-kInfinity<Compute>);
    const auto step = [&](int j) TWINOPS_INLINE_BODY {
      const V value = load<Isa>(x + j);
      save(to + j, value);
      max = larger(max, value);
    };
    int j = 0;
    for (; j + V::kLanes <= columns; j += V::kLanes) step(j);
    if (j < columns) {
      save(to + j, V(-kInfinity<Compute>));
      step(columns - V::kLanes);
    }
    return max;
  }

  // Not inlined: it is rare.
  [[gnu::noinline]] static std::uint32_t nans_of(V v) {
    alignas(64) Compute lanes[kRows];
    save(lanes, v);
    std::uint32_t bits = 0;
    for (int r = 0; r < kRows; ++r) bits |= std::uint32_t{lanes[r] != lanes[r]} << r;
    return bits;
  }

  static constexpr int kCapacity = kGroupColumns<Compute>;
  bool cold_;
  alignas(64) Compute low_[kRows], magic_[kRows], max_[kRows], sum_[kRows], last_[kRows];
  alignas(64) Compute values_[kRows * kCapacity];      // softmax: then the weights
  alignas(64) Compute weights_[kLog ? kCapacity : 1];  // log_softmax: of one row
};

}  // namespace twinops
