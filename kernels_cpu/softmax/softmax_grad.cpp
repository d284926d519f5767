// softmax_grad and log_softmax_grad: softmax_grad_op.hpp, softmax_grad_strided.hpp for rows along
// an axis that is not the last, or softmax_grad_masked.hpp under a mask, on dy as it is.
#include "operators/softmax_grad.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/broadcast_sums.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
#include "kernels_cpu/softmax/softmax_grad_masked.hpp"
#include "kernels_cpu/softmax/softmax_grad_op.hpp"
#include "kernels_cpu/softmax/softmax_grad_strided.hpp"

namespace twinops {
namespace {

template <class In, class Isa>
struct PlainDy {
  static constexpr bool kInPlace = true;
  struct Row {
    RowView<const In, Isa> dy;
    TWINOPS_INLINE const In* run(std::int64_t first, int n, In* buffer) const {
      return dense_run(dy, first, n, buffer);
    }
  };
  TWINOPS_INLINE Row row(std::int64_t, RowView<const In, Isa> dy) const { return {dy}; }
};

template <class Isa, bool kLog>
void grad_rows(const SoftmaxGradArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    const PlainDy<In, Isa> dy;
    if (!a.mask.is_plain())
      return for_each_row(MaskedGradRows<Isa, kLog, In, Out, PlainDy<In, Isa>>(a, dy), execution,
                          a.rows.rows, a.rows.length);
    if (lie_side_by_side(a.rows)) {
      using Strided = StridedGradRows<Isa, kLog, In, Out>;
      const std::int64_t run = neighbours_of(a.rows), runs = a.rows.rows / run * a.rows.length;
      const bool streamed = a.dx != a.y && a.dx != a.dy && is_streamed<Out>(runs, run);
      return for_each_tile(Strided(a, streamed), execution, a.rows, Strided::kCapacity);
    }
    for_each_row(GradRows<Isa, kLog, In, Out, PlainDy<In, Isa>>(a, dy), execution, a.rows.rows,
                 a.rows.length);
  });
}

template <class Isa, bool kLog>
void grad_with_sums(const SoftmaxGradArguments& arguments, Execution& execution) {
  with_combined_mask(arguments, execution, combine_on_cpu, [&](const SoftmaxGradArguments& a) {
    run_with_sums(
        a, execution,
        [&](const SoftmaxGradArguments& part) { grad_rows<Isa, kLog>(part, execution); },
        [&](const BroadcastSums& sums, const void* values, BroadcastSums::Place place) {
          broadcast_sums_on_cpu(sums, values, place, execution);
        });
  });
}

}  // namespace

template <>
void run_cpu<SoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& arguments,
                                            Execution& execution) {
  grad_with_sums<isa::TWINOPS_ISA, false>(arguments, execution);
}
template <>
void run_cpu<LogSoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& arguments,
                                               Execution& execution) {
  grad_with_sums<isa::TWINOPS_ISA, true>(arguments, execution);
}

}  // namespace twinops
