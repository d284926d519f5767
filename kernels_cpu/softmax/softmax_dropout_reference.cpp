// softmax_dropout, one element after the other.
#include "kernels_cpu/dropout/dropout_reference.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
#include "kernels_cpu/softmax/softmax_reference.hpp"
#include "operators/softmax_dropout.hpp"

namespace twinops {

template <>
void run_reference<SoftmaxDropout>(const SoftmaxDropoutArguments& a, Execution& execution) {
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  reference_mask(a.dropout, sequence);
  const auto run = [&](const SoftmaxArguments& softmax) {
    with_type_pair(softmax.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
      using F = compute_t<Out>;
      for (std::int64_t r = 0; r < softmax.rows.rows; ++r) {
        const auto at = row_offsets(a.outer, r);
        auto* p = static_cast<Out*>(softmax.out) +
                  row_offsets(softmax.rows.outer, r).of[SoftmaxArguments::kOut];
        auto* y = static_cast<Out*>(a.dropout.y) + at.of[SoftmaxDropoutArguments::kY];
        reference_row<false, In, Out>(softmax, r, [&](std::int64_t i, auto probability) {
          const Out stored = narrow<Out>(probability);
          if (a.keeps_probabilities) p[i * softmax.rows.step[SoftmaxArguments::kOut]] = stored;
          const std::int64_t e = at.of[SoftmaxDropoutArguments::kLogical] +
                                 i * a.step[SoftmaxDropoutArguments::kLogical];
          const bool kept = reference_is_kept(a.dropout, sequence, e);
          y[i * a.step[SoftmaxDropoutArguments::kY]] =
              narrow<Out>(dropped_out<F>(kept, widen(stored), static_cast<F>(a.dropout.scale)));
        });
      }
    });
  };
  with_combined_mask(a.softmax, execution, combine_on_cpu, run);
}

}  // namespace twinops
