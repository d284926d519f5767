// softmax_grad and log_softmax_grad: kernels_cpu/softmax_grad_rows.hpp, of dy as it is.
#include "operators/softmax_grad.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows.hpp"
#include "kernels_cpu/softmax_grad_rows.hpp"

namespace twinops {
namespace {

template <class In, class Isa>
struct PlainDy {
  struct Row {
    RowView<const In, Isa> dy;
    template <class F>
    TWINOPS_INLINE void read(std::int64_t first, int n, F&& f) const {
      read_chunk(dy, first, n, In{}, f);
    }
  };
  TWINOPS_INLINE Row row(std::int64_t, RowView<const In, Isa> dy) const { return {dy}; }
};

template <class Isa, bool kLog>
void grad_rows(const SoftmaxGradArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    const PlainDy<In, Isa> dy;
    for_each_row(GradRows<Isa, kLog, In, Out, PlainDy<In, Isa>>(a, dy), execution, a.rows.rows,
                 a.rows.length);
  });
}

}  // namespace

template <>
void run_cpu<SoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& arguments,
                                            Execution& execution) {
  grad_rows<isa::TWINOPS_ISA, false>(arguments, execution);
}
template <>
void run_cpu<LogSoftmaxGrad, isa::TWINOPS_ISA>(const SoftmaxGradArguments& arguments,
                                               Execution& execution) {
  grad_rows<isa::TWINOPS_ISA, true>(arguments, execution);
}

}  // namespace twinops
