// softmax and log_softmax, one element after the other.
#include "kernels_cpu/softmax/softmax_reference.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"

namespace twinops {
namespace {

template <bool kLog>
void softmax_reference(const SoftmaxArguments& a) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    for (std::int64_t r = 0; r < a.rows.rows; ++r) {
      Out* out = static_cast<Out*>(a.out) + row_offsets(a.rows.outer, r).of[SoftmaxArguments::kOut];
      reference_row<kLog, In, Out>(a, r, [&](std::int64_t i, auto y) {
        out[i * a.rows.step[SoftmaxArguments::kOut]] = narrow<Out>(y);
      });
    }
  });
}

}  // namespace

template <>
void run_reference<Softmax>(const SoftmaxArguments& arguments, Execution& execution) {
  with_combined_mask(arguments, execution, combine_on_cpu, softmax_reference<false>);
}
template <>
void run_reference<LogSoftmax>(const SoftmaxArguments& arguments, Execution& execution) {
  with_combined_mask(arguments, execution, combine_on_cpu, softmax_reference<true>);
}

}  // namespace twinops
