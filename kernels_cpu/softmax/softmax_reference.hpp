// One row of softmax or log_softmax, one element after the other.
#pragma once

#include <algorithm>

#include "kernels_cpu/rows/offsets.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {

// The values of a row, scaled and masked.
template <class In>
class ReferenceRow {
 public:
  using Element = In;
  using F = compute_t<In>;

  ReferenceRow(const SoftmaxArguments& a, std::int64_t row)
      : x_(static_cast<const In*>(a.x) + row_offsets(a.rows.outer, row).of[SoftmaxArguments::kX]),
        step_(a.rows.step[SoftmaxArguments::kX]),
        scale_(static_cast<F>(a.scale)),
        mask_(a.mask) {
    const auto at = row_offsets(a.mask_outer, row);
    first_ = at.of[RowMask::kMask];
    columns_ = a.mask.columns(at.of, a.rows.length);
  }
  F operator[](std::int64_t i) const {
    const F x = widen(x_[i * step_]);
    const std::int64_t m = first_ + i * mask_.step;
    if (i >= columns_) return -kInfinity<F>;
    switch (mask_.kind) {
      case RowMask::Kind::none:
        return scaled(x, scale_);
      case RowMask::Kind::excluded:
        return scaled_where(static_cast<const std::uint8_t*>(mask_.data)[m] == 0, x, scale_);
      case RowMask::Kind::added:
        return scaled_and_masked<F>(x, scale_, widen(static_cast<const In*>(mask_.data)[m]));
      default:
        return scaled_and_masked<F>(x, scale_, F(static_cast<const float*>(mask_.data)[m]));
    }
  }

 private:
  const In* x_;
  std::int64_t step_;
  F scale_;
  const RowMask& mask_;
  std::int64_t first_, columns_;
};

// The weights of chunk c, +0 beyond the row. Returns the greatest value.
template <class Row, class F>
F chunk_weights(const Row& x, std::int64_t c, std::int64_t length, F shift,
                F (&weights)[kFoldChunk]) {
  const std::int64_t first = c * kFoldChunk, n = std::min<std::int64_t>(length - first, kFoldChunk);
  F max = -kInfinity<F>;
  for (std::int64_t j = 0; j < n; ++j) max = greatest<F>(max, x[first + j] - shift);
  const WeightScale<F> scale = weight_scale(max);
  for (std::int64_t j = 0; j < kFoldChunk; ++j)
    weights[j] = j < n ? weight<typename Row::Element, F>(x[first + j] - shift, scale) : F(0);
  return max;
}

template <class Row, class F>
SoftmaxPart<F> row_part(const Row& x, std::int64_t length, F shift) {
  ChunkTree<SoftmaxPart<F>> tree;
  F weights[kFoldChunk];
  for (std::int64_t c = 0; c * kFoldChunk < length; ++c) {
    const F max = chunk_weights(x, c, length, shift, weights);
    tree.add({max, fold(weights, kFoldChunk)});
  }
  return tree.total();
}

template <class Out, class F>
F probability(F weight, F divisor) {
  const F y = Division<Out, F>::by(divisor)(weight);
  return is_far<Out>(divisor) ? from_far(y) : y;
}

// Calls put(i, y) for every element of a row, from the first on; x[i] is not read after that. Out:
// what y is rounded to.
template <bool kLog, class In, class Out, class Put>
void reference_row(const SoftmaxArguments& a, std::int64_t row_index, Put&& put) {
  using F = compute_t<In>;
  const ReferenceRow<In> x(a, row_index);
  const std::int64_t length = a.rows.length;
  F shift = F(0);
  SoftmaxPart<F> row = row_part(x, length, shift);
  if (kind_of_row(row.max) == RowKind::out_of_range) {
    shift = row.max;
    row = row_part(x, length, shift);
  }
  const RowKind kind = kind_of_row(row.max);
  F weights[kFoldChunk];
  for (std::int64_t c = 0; c * kFoldChunk < length; ++c) {
    const F max = chunk_weights(x, c, length, shift, weights);
    for (std::int64_t j = 0; j < kFoldChunk && c * kFoldChunk + j < length; ++j) {
      const std::int64_t i = c * kFoldChunk + j;
      if (kind != RowKind::ordinary)
        put(i, special_row<F>(kind, a.masked_is_zero, kLog));
      else if (kLog)
        put(i, log_softmax<F>(x[i] - shift, row.max, log_of_sum<In>(row)));
      else
        put(i, probability<Out>(weights[j],
                                divisor_of_chunk<Out>(row.max, divisor_of_row<Out>(row.sum), max)));
    }
  }
}

}  // namespace twinops
