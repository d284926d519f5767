// softmax_dropout_grad, one element after the other.
#include "kernels_cpu/dropout/dropout_reference.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/softmax_grad_reference.hpp"
#include "operators/softmax_dropout_grad.hpp"

namespace twinops {

template <>
void run_reference<SoftmaxDropoutGrad>(const SoftmaxDropoutGradArguments& a, Execution& execution) {
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  grad_reference<false>(a.softmax, execution, [&]<class T>(std::int64_t r, std::int64_t i, T dy) {
    using F = compute_t<T>;
    const std::int64_t e = row_offsets(a.outer, r).of[0] + i * a.step;
    const bool kept = reference_is_kept(a.dropout, sequence, e);
    return narrow<T>(dropped_out<F>(kept, widen(dy), static_cast<F>(a.dropout.scale)));
  });
}

}  // namespace twinops
