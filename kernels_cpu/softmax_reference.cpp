// softmax and log_softmax, one element after the other.
#include <algorithm>

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/row_offsets.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"

namespace twinops {
namespace {

template <class T>
struct Strided {
  T* data;
  std::int64_t step;
  T& operator[](std::int64_t i) const { return data[i * step]; }
};

template <class In>
using Row = Strided<const In>;

// The weights of chunk c, +0 beyond the row; returns the greatest x.
template <class In, class F>
F chunk_weights(Row<In> x, std::int64_t c, std::int64_t length, F shift, F (&weights)[kFoldChunk]) {
  const std::int64_t first = c * kFoldChunk, n = std::min<std::int64_t>(length - first, kFoldChunk);
  F max = -kInfinity<F>;
  for (std::int64_t j = 0; j < n; ++j) max = greatest<F>(max, widen(x[first + j]) - shift);
  const WeightScale<F> scale = weight_scale(max);
  for (std::int64_t j = 0; j < kFoldChunk; ++j)
    weights[j] = j < n ? weight<F>(widen(x[first + j]) - shift, scale) : F(0);
  return max;
}

template <class In, class F>
SoftmaxPart<F> row_part(Row<In> x, std::int64_t length, F shift) {
  ChunkTree<SoftmaxPart<F>> tree;
  F weights[kFoldChunk];
  for (std::int64_t c = 0; c * kFoldChunk < length; ++c) {
    const F max = chunk_weights(x, c, length, shift, weights);
    tree.add({max, fold(weights, kFoldChunk)});
  }
  return tree.total();
}

template <bool kLog, class In, class Out>
void softmax_row(Row<In> x, Strided<Out> out, std::int64_t length, bool masked_is_zero) {
  using F = compute_t<In>;
  F shift = F(0);
  SoftmaxPart<F> row = row_part(x, length, shift);
  if (kind_of_row(row.max) == RowKind::far) {
    shift = row.max;
    row = row_part(x, length, shift);
  }
  const RowKind kind = kind_of_row(row.max);
  F weights[kFoldChunk];
  for (std::int64_t c = 0; c * kFoldChunk < length; ++c) {
    const F max = chunk_weights(x, c, length, shift, weights);
    for (std::int64_t j = 0; j < kFoldChunk && c * kFoldChunk + j < length; ++j) {
      const std::int64_t i = c * kFoldChunk + j;
      F y;
      if (kind != RowKind::ordinary)
        y = special_row<F>(kind, masked_is_zero, kLog);
      else if (kLog)
        y = log_softmax<F>(widen(x[i]) - shift, row.max, log_of_sum(row));
      else
        y = weights[j] * softmax_factor(row, F(1) / row.sum, max);
      out[i] = narrow<Out>(y);
    }
  }
}

template <bool kLog>
void softmax_reference(const SoftmaxArguments& a) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    for (std::int64_t r = 0; r < a.rows.rows; ++r) {
      const auto [offsets] = row_offsets(a.rows.outer, r);
      softmax_row<kLog>(Row<In>{static_cast<const In*>(a.x) + offsets[1], a.rows.step[1]},
                        Strided<Out>{static_cast<Out*>(a.out) + offsets[0], a.rows.step[0]},
                        a.rows.length, a.masked_is_zero);
    }
  });
}

}  // namespace

template <>
void run_reference<Softmax>(const SoftmaxArguments& arguments, Execution&) {
  softmax_reference<false>(arguments);
}
template <>
void run_reference<LogSoftmax>(const SoftmaxArguments& arguments, Execution&) {
  softmax_reference<true>(arguments);
}

}  // namespace twinops
