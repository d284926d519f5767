// softmax_dropout: softmax_op.hpp, with dropout where results are written.
//
// Memory: x is read and y is written as by softmax; probabilities are written where the call keeps
// them. A mask that is stored is drawn first, in a pass of its own, and then read: a bit for each
// element, and rows may begin inside a word.
#include "operators/softmax_dropout.hpp"

#include "kernels_cpu/dropout/row_masks.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
#include "kernels_cpu/softmax/softmax_op.hpp"

namespace twinops {
namespace {

template <class Out, class Isa>
struct DropoutSink {
  using Element = Out;
  using Arguments = SoftmaxDropoutArguments;
  using V = compute_vec<Out, Isa>;

  struct Row {
    const DropoutSink* sink;
    RowView<Out, Isa> probabilities, y;
    std::int64_t e;  // the first element's logical index

    template <class F>
    TWINOPS_INLINE void write(std::int64_t first, int n, F&& f) const {
      alignas(64) Out p[kFoldChunk], buffer[V::kLanes];
      std::uint64_t kept[kFoldChunk / kStep];
      const Arguments& a = sink->a;
      const std::int64_t step = a.step[Arguments::kLogical];
      const V scale(static_cast<compute_t<Out>>(a.dropout.scale));
      sink->kept.read(e + first * step, step, n, kept);
      for (int j = 0; j < n; j += V::kLanes) store_canonical<Isa>(p + j, f(j));
      if (a.keeps_probabilities)
        write_chunk<true>(probabilities, first, n,
                          [&](int j) TWINOPS_INLINE_BODY { return load<Isa>(p + j); });
      write_chunk<true>(y, first, n, [&](int j) TWINOPS_INLINE_BODY {
        return dropped<Isa, Out>(kept, j, load<Isa>(p + j), scale, buffer);
      });
    }
  };

  const Arguments& a;
  RowMasks<Isa> kept;

  TWINOPS_INLINE Row row(std::int64_t index, std::int64_t offset) const {
    const auto at = row_offsets(a.outer, index);
    return {
        this,
        {static_cast<Out*>(a.softmax.out) + offset, a.softmax.rows.step[SoftmaxArguments::kOut]},
        {static_cast<Out*>(a.dropout.y) + at.of[Arguments::kY], a.step[Arguments::kY]},
        at.of[Arguments::kLogical]};
  }
};

}  // namespace

template <>
void run_cpu<SoftmaxDropout, isa::TWINOPS_ISA>(const SoftmaxDropoutArguments& a,
                                               Execution& execution) {
  using Isa = isa::TWINOPS_ISA;
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  draw_mask<Isa>(a.dropout, sequence, execution);
  const DropoutWork work = with_drawn_mask(a.dropout);
  with_type_pair(a.softmax.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
    using Sink = DropoutSink<Out, Isa>;
    const Sink sink{a, {work, sequence}};
    with_combined_mask(a.softmax, execution, combine_on_cpu, [&](const SoftmaxArguments& softmax) {
      for_each_row(SoftmaxRows<Isa, false, In, Sink>(softmax, sink), execution, softmax.rows.rows,
                   softmax.rows.length);
    });
  });
}

}  // namespace twinops
