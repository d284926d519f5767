// The backward passes of softmax and log_softmax, one element after the other.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
#include "numerics/softmax.hpp"
#include "operators/softmax_grad.hpp"

namespace twinops {

// The sums of the gradients in `values`, one after the other.
inline void sums_reference(const BroadcastSums& s, const void* values, int place) {
  with_floating_type(s.type, [&]<class T>(TypeTag<T>) {
    using F = compute_t<T>;
    std::vector<F> of_sum(static_cast<std::size_t>(s.rows));
    for (std::int64_t c = 0; c < s.columns; ++c) {
      const F* const first =
          static_cast<const F*>(values) + row_offsets(s.column_axes, c).of[place];
      for (std::int64_t r = 0; r < s.rows; ++r)
        of_sum[static_cast<std::size_t>(r)] = first[row_offsets(s.row_axes, r).of[place]];
      static_cast<T*>(s.out)[c] = narrow<T>(folded_sum(of_sum.data(), s.rows));
    }
  });
}

// `counting(r, i, dy)`: the gradient that counts for element i of row r, where `dy` was read. Of
// what is masked out neither y nor dy is.
template <bool kLog, class Dy>
void dx_reference(const SoftmaxGradArguments& a, Dy&& counting) {
  using Operands = SoftmaxGradArguments;
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    using F = compute_t<In>;
    for (std::int64_t r = 0; r < a.rows.rows; ++r) {
      const auto [offsets] = row_offsets(a.rows.outer, r);
      const In* y = static_cast<const In*>(a.y) + offsets[Operands::kY];
      const In* dys = static_cast<const In*>(a.dy) + offsets[Operands::kDy];
      Out* dx = static_cast<Out*>(a.dx) + offsets[Operands::kDx];
      const std::int64_t *step = a.rows.step, length = a.rows.length;
      const auto mask_at = row_offsets(a.mask_outer, r);
      const std::int64_t columns = a.mask.columns(mask_at.of, length);
      const auto counts = [&](std::int64_t i) {
        return i < columns && a.mask.lets_count(mask_at.of[RowMask::kMask] + i * a.mask.step);
      };
      const auto dy = [&](std::int64_t i) {
        return widen(counting(r, i, dys[i * step[Operands::kDy]]));
      };
      ChunkTree<F> tree;
      for (std::int64_t first = 0; first < length; first += kFoldChunk) {
        F terms[kFoldChunk] = {};
        for (std::int64_t j = 0; j < std::min<std::int64_t>(kFoldChunk, length - first); ++j)
          if (counts(first + j))
            terms[j] =
                grad_term<kLog, F>(widen(y[(first + j) * step[Operands::kY]]), dy(first + j));
        tree.add(fold(terms, kFoldChunk));
      }
      const F sum = tree.total();
      for (std::int64_t i = 0; i < length; ++i)
        dx[i * step[Operands::kDx]] =
            narrow<Out>(counts(i) ? softmax_grad<kLog, In, F>(widen(y[i * step[Operands::kY]]),
                                                              dy(i), sum, static_cast<F>(a.scale))
                                  : F(0));
    }
  });
}

template <bool kLog, class Dy>
void grad_reference(const SoftmaxGradArguments& arguments, Execution& execution, Dy&& counting) {
  with_combined_mask(arguments, execution, combine_on_cpu, [&](const SoftmaxGradArguments& a) {
    run_with_sums(
        a, execution, [&](const SoftmaxGradArguments& part) { dx_reference<kLog>(part, counting); },
        [&](const BroadcastSums& sums, const void* values, int place) {
          sums_reference(sums, values, place);
        });
  });
}

}  // namespace twinops
