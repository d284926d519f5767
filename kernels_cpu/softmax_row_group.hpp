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

// Longer rows keep a vector's lanes busy by themselves, and sixteen of them no cache. Softmax of
// more than so many vectors a row does better one by one, unless it is streamed together: on a Zen
// 3, AVX2, in the caches, 256 columns of float32 46 to 42 us, of float64 125 to 96, but 130 of
// float32 54 to 60; log_softmax of float32 loses a fifth to a third.
//
// Tried and left: softmax of float32 without the buffer for its values (64 columns 9.9 to 9.4 GB/s,
// 256 11.5 to 10.8).
inline constexpr int kGroupColumns = 256, kGroupVectors = 24;

template <class Isa, bool kLog, class In, class Out>
class SoftmaxRowGroup {
 public:
  using Compute = compute_t<In>;
  using V = Vec<Compute, Isa>;
  static constexpr int kRows = V::kLanes;

  // Of rows of `columns` elements, 1 to kGroupColumns. together: outputs are one run, and streamed.
  SoftmaxRowGroup(int columns, bool together)
      : columns_(columns),
        pitch_((columns + V::kLanes - 1) / V::kLanes * V::kLanes),
        together_(together) {}

  // x, out: where each of kRows rows begins. False, and nothing is written, where one of them is
  // not an ordinary row.
  TWINOPS_INLINE bool run(const In* const* x, const RowView<Out, Isa>* out) {
    V of_rows[kRows];
    for (int r = 0; r < kRows; ++r) of_rows[r] = read(x[r], row(r));
    const V max = largest_across(of_rows);
    const LaneScale<V> scale = lane_scale(max);
    save(low_, scale.low);
    save(magic_, scale.magic);
    const int folded = padded<Compute, Isa>(columns_);
    for (int r = 0; r < kRows; ++r) {
      const LaneScale<V> of_row{V(low_[r]), V(magic_[r])};
      of_rows[r] = fold_to_vector<Compute, Isa>(folded, [&](int j) TWINOPS_INLINE_BODY {
        if (j >= pitch_) return V(Compute(0));
        __builtin_prefetch(x[r] + kRows * columns_ + j);  // the rows that follow
        const V w = weight<In>(load<Isa>(row(r) + j), of_row);
        if constexpr (!kLog) save(row(r) + j, w);
        return w;
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
      const RowView<Out, Isa> to = together_ ? RowView<Out, Isa>{run_ + r * columns_, 1} : out[r];
      write_chunk<true, true>(to, 0, columns_, [&](int j) TWINOPS_INLINE_BODY {
        const V value = load<Isa>(row(r) + j);
        if constexpr (kLog)
          return log_softmax(value, of_row, last);
        else
          return value * last;
      });
    }
    if (together_) stream_elements<Isa>(out[0].data, run_, kRows * columns_);
    return true;
  }

 private:
  TWINOPS_INLINE Compute* row(int r) { return values_ + r * pitch_; }

  // A row's values, and their maximum.
  TWINOPS_INLINE V read(const In* x, Compute* to) const {
    if (columns_ < V::kLanes) {
      alignas(64) In few[V::kLanes];
      for (int j = 0; j < V::kLanes; ++j) few[j] = narrow<In>(-kInfinity<Compute>);
      copy_few<V::kLanes>(few, x, columns_);
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
    for (; j + V::kLanes <= columns_; j += V::kLanes) step(j);
    if (j < columns_) {
      save(to + j, V(-kInfinity<Compute>));
      step(columns_ - V::kLanes);
    }
    return max;
  }

  int columns_, pitch_;
  bool together_;
  alignas(64) Compute low_[kRows], magic_[kRows], max_[kRows], last_[kRows];
  alignas(64) Compute values_[kRows * kGroupColumns];
  alignas(64) Out run_[kRows * kGroupColumns];
};

}  // namespace twinops
