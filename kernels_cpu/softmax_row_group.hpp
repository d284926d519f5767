// softmax and log_softmax of short rows, as many at once as a vector has lanes, so that what there
// is one of a row (its maximum, its sum, a division, a logarithm) is a lane of a vector. Only files
// compiled once an instruction set include this.
//
// Memory: rows are read once into a buffer of padded rows, and written once from there; a vector
// that begins in a row ends in it, so the last one of a row overlaps the one before it. Order:
// docs/softmax.md. Rows that are not all ordinary are left to softmax_rows.hpp, nothing written.
// Rows shorter than a vector leave lanes empty, and are slower for it than they need be.
#pragma once

#include "kernels_cpu/across.hpp"
#include "numerics/softmax_lanes.hpp"

namespace twinops {

// Tried and left: softmax of float32 without the buffer for its values (65 columns a tenth slower,
// 64 and 256 as before); results of all rows of a group streamed together (as fast at best, up to
// three tenths slower, Xeon).
template <class Isa, bool kLog, class In, class Out>
class SoftmaxRowGroup {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kRows = V::kLanes;

  // Of rows of `columns` elements, 1 to kGroupColumns. cold: no cache holds their outputs yet.
  SoftmaxRowGroup(int columns, bool cold)
      : columns_(columns), pitch_(padded<Compute, Isa>(columns)), cold_(cold) {}

  // x, out: where each of kRows rows begins. False, and nothing is written, where one of them is
  // not an ordinary row.
  TWINOPS_INLINE bool run(const In* const* x, Out* const* out) {
    // Copies: members would be read again after every vector that is stored, which may be to them.
    const int columns = columns_, pitch = pitch_;
    const bool cold = cold_;
    V of_rows[kRows];
    for (int r = 0; r < kRows; ++r) of_rows[r] = read(x[r], columns, values_ + r * pitch);
    const V max = largest_across(of_rows);
    const LaneScale<V> scale = lane_scale(max);
    save(low_, scale.low);
    save(magic_, scale.magic);
    for (int r = 0; r < kRows; ++r) {
      if (cold) fetch_to_write(RowView<Out, Isa>{out[r], 1}, columns);
      const LaneScale<V> of_row{V(low_[r]), V(magic_[r])};
      const Compute* const from = values_ + r * pitch;
      of_rows[r] = fold_saved<Compute, Isa>(
          kLog ? weights_ : values_ + r * pitch, columns, pitch, [&](int j) TWINOPS_INLINE_BODY {
            __builtin_prefetch(x[r] + kRows * columns + j);  // the rows that follow
            return weight<In>(load<Isa>(from + j), of_row);
          });
    }
    const V sum = sum_of_ordinary(max, fold_across(of_rows));
    if (isa::holds_nan(sum.v, sum.v, sum.v, sum.v)) [[unlikely]]
      return false;
    if constexpr (kLog) {
      save(max_, max);
      save(last_, sum_over_mantissa<In>(max, sum));
      for (int r = 0; r < kRows; ++r) last_[r] = log_of_normal(last_[r], 0);
    } else {
      save(last_, V(Compute(1)) / sum);
    }
    for (int r = 0; r < kRows; ++r) {
      const V last(last_[r]), of_row(kLog ? max_[r] : Compute(0));
      const RowView<Out, Isa> to{out[r], 1};
      const Compute* const from = values_ + r * pitch;
      write_chunk<true, true>(to, 0, columns, [&](int j) TWINOPS_INLINE_BODY {
        const V value = load<Isa>(from + j);
        if constexpr (kLog)
          return log_softmax(value, of_row, last);
        else
          return value * last;
      });
    }
    return true;
  }

 private:
  // A row's values, and their maximum.
  TWINOPS_INLINE static V read(const In* x, int columns, Compute* to) {
    if (columns < V::kLanes) {
      alignas(64) In few[V::kLanes];
      for (int j = 0; j < V::kLanes; ++j) few[j] = narrow<In>(-kInfinity<Compute>);
      copy_few<V::kLanes>(few, x, columns);
      const V value = load<Isa>(few);
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

  static constexpr int kRoom = kGroupColumns<Compute>;
  int columns_, pitch_;
  bool cold_;
  alignas(64) Compute low_[kRows], magic_[kRows], max_[kRows], last_[kRows];
  alignas(64) Compute values_[kRows * kRoom];      // softmax: then the weights
  alignas(64) Compute weights_[kLog ? kRoom : 1];  // log_softmax: of one row
};

}  // namespace twinops
