// softmax_dropout: rows as by softmax, with dropout where results are written.
//
// Memory: x is read and y is written as by softmax; probabilities are written where the call keeps
// them. A mask that is stored is drawn first, in a pass of its own, and then read: a bit for each
// element, and rows may begin inside a word.
#include "operators/softmax_dropout.hpp"

#include "kernels_cpu/dropout/row_masks.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/softmax_steps.hpp"

namespace twinops {
namespace {

using Isa = isa::TWINOPS_ISA;
using In = TWINOPS_ELEMENT;

struct DropoutSink : SoftmaxSink {
  const SoftmaxDropoutArguments& a;
  RowMasks<Isa> kept;
};

template <class Out>
void write_dropped(const SoftmaxSink& sink, std::int64_t row, void* out, std::int64_t first, int n,
                   const void* results) {
  using Arguments = SoftmaxDropoutArguments;
  using V = compute_vec<Out, Isa>;
  const auto& dropout = static_cast<const DropoutSink&>(sink);
  const SoftmaxDropoutArguments& a = dropout.a;
  const auto* const p = static_cast<const Out*>(results);
  const auto at = row_offsets(a.outer, row);
  const RowView<Out, Isa> y{static_cast<Out*>(a.dropout.y) + at.of[Arguments::kY],
                            a.step[Arguments::kY]};
  std::uint64_t kept[kFoldChunk / kStep];
  alignas(64) Out buffer[V::kLanes];
  const std::int64_t step = a.step[Arguments::kLogical];
  const V scale(static_cast<compute_t<Out>>(a.dropout.scale));
  dropout.kept.read(at.of[Arguments::kLogical] + first * step, step, n, kept);
  if (a.keeps_probabilities)
    write_chunk<true>(
        RowView<Out, Isa>{static_cast<Out*>(out), a.softmax.rows.step[SoftmaxArguments::kOut]},
        first, n, [&](int j) TWINOPS_INLINE_BODY { return load<Isa>(p + j); });
  write_chunk<true>(y, first, n, [&](int j) TWINOPS_INLINE_BODY {
    return dropped<Isa, Out>(kept, j, load<Isa>(p + j), scale, buffer);
  });
}

}  // namespace

template <>
void run_cpu_of<SoftmaxDropout, Isa, In>(const SoftmaxDropoutArguments& a, Execution& execution) {
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  draw_mask<Isa>(a.dropout, sequence, execution);
  const DropoutWork work = with_drawn_mask(a.dropout);
  with_out_type<In>(a.softmax.types, [&]<class Out>(TypeTag<Out>) {
    const DropoutSink sink{{write_dropped<Out>}, a, {work, sequence}};
    softmax_rows(a.softmax, softmax_steps<Isa, In>(a.softmax.types, false), &sink, execution);
  });
}

}  // namespace twinops
