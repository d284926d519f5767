// softmax and log_softmax: softmax_op.hpp, or softmax_strided.hpp for rows along an axis that is
// not the last, with outputs written as they are.
#include "operators/softmax.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
#include "kernels_cpu/softmax/softmax_op.hpp"
#include "kernels_cpu/softmax/softmax_strided.hpp"

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
    TWINOPS_INLINE void fetch(int n) const {
      if (out.cold) fetch_to_write(out, n);
    }
    template <class F>
    TWINOPS_INLINE F* buffer(std::int64_t first) const {
      if constexpr (std::is_same_v<F, Out>)
        if (out.step == 1 && !out.streamed) return out.data + first;
      return nullptr;
    }
  };
  using Element = Out;
  Out* out;
  std::int64_t step;
  bool streamed;
  bool cold;  // in no cache, nor streamed
  TWINOPS_INLINE RowView<Out, Isa> view(std::int64_t offset) const {
    return {out + offset, step, streamed, cold};
  }
  TWINOPS_INLINE Row row(std::int64_t, std::int64_t offset) const { return {view(offset)}; }
};

template <class Isa, bool kLog>
void softmax_rows(const SoftmaxArguments& a, Execution& execution) {
  with_type_pair(a.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    const std::int64_t count = a.rows.rows, length = a.rows.length;
    const bool apart = a.out != a.x && a.rows.step[SoftmaxArguments::kOut] == 1;
    const std::int64_t chunks = (length + kFoldChunk - 1) / kFoldChunk;
    const bool waits = !kLog && waits_in_output<In, Out>(chunks);
    const bool streamed = apart && !waits && is_streamed<Out>(count, length, kStreamedRow);
    const PlainSink<Out, Isa> sink{
        static_cast<Out*>(a.out), a.rows.step[SoftmaxArguments::kOut], streamed,
        !streamed && a.rows.step[SoftmaxArguments::kOut] == 1 && is_cold<Out>(count, length)};
    using Rows = SoftmaxRows<Isa, kLog, In, PlainSink<Out, Isa>>;
    const Rows rows(a, sink);
    if (!a.is_plain() || !lie_side_by_side(a.rows))
      return for_each_row(rows, execution, count, length);
    const std::int64_t run = neighbours_of(a.rows);
    const auto special = [&](std::int64_t r, compute_t<In>* buffer) {
      whole_rows<Rows, typename Rows::CutKept>(rows, r, r + 1, length, buffer);
    };
    using Strided = StridedSoftmaxRows<Isa, kLog, In, Out, decltype(special)>;
    for_each_tile(Strided(a, a.out != a.x && is_streamed<Out>(count / run * length, run), special),
                  execution, a.rows, Strided::kCapacity);
  });
}

}  // namespace

template <>
void run_cpu<Softmax, isa::TWINOPS_ISA>(const SoftmaxArguments& arguments, Execution& execution) {
  with_combined_mask(arguments, execution, combine_on_cpu, [&](const SoftmaxArguments& a) {
    softmax_rows<isa::TWINOPS_ISA, false>(a, execution);
  });
}
template <>
void run_cpu<LogSoftmax, isa::TWINOPS_ISA>(const SoftmaxArguments& arguments,
                                           Execution& execution) {
  with_combined_mask(arguments, execution, combine_on_cpu, [&](const SoftmaxArguments& a) {
    softmax_rows<isa::TWINOPS_ISA, true>(a, execution);
  });
}

}  // namespace twinops
