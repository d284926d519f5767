// softmax and log_softmax: kernels_cpu/softmax_rows.hpp, written as they are.
#include "operators/softmax.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows.hpp"
#include "kernels_cpu/softmax_rows.hpp"

namespace twinops {
namespace {

template <class Out, class Isa>
struct PlainSink {
  struct Row {
    RowView<Out, Isa> out;
    template <class F>
    TWINOPS_INLINE void write(std::int64_t first, int n, F&& f) const {
      write_chunk<true>(out, first, n, f);
    }
  };
  Out* out;
  std::int64_t step;
  TWINOPS_INLINE Row row(std::int64_t, std::int64_t offset) const { return {{out + offset, step}}; }
};

template <class Isa, bool kLog>
void softmax_rows(const SoftmaxArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    const PlainSink<Out, Isa> sink{static_cast<Out*>(a.out), a.rows.step[0]};
    for_each_row(SoftmaxRows<Isa, kLog, In, PlainSink<Out, Isa>>(a, sink), execution, a.rows.rows,
                 a.rows.length);
  });
}

}  // namespace

template <>
void run_cpu<Softmax, isa::TWINOPS_ISA>(const SoftmaxArguments& arguments, Execution& execution) {
  softmax_rows<isa::TWINOPS_ISA, false>(arguments, execution);
}
template <>
void run_cpu<LogSoftmax, isa::TWINOPS_ISA>(const SoftmaxArguments& arguments,
                                           Execution& execution) {
  softmax_rows<isa::TWINOPS_ISA, true>(arguments, execution);
}

}  // namespace twinops
