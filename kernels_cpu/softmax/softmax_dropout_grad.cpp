// softmax_dropout_grad: rows as by softmax_grad, or softmax_grad_masked.hpp, on dy under dropout's
// mask.
#include "operators/softmax_dropout_grad.hpp"

#include "kernels_cpu/dropout/row_masks.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/softmax_grad_masked.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {
namespace {

using Isa = isa::TWINOPS_ISA;
using In = TWINOPS_ELEMENT;
using V = compute_vec<In, Isa>;

struct DroppedDy : GradSource {
  DroppedDy(const SoftmaxDropoutGradArguments& arguments, const Sequence& sequence)
      : GradSource{read_dropped}, a(arguments), kept(arguments.dropout, sequence) {}

  struct Row {
    const DroppedDy* all;
    RowView<const In, Isa> dy;
    std::int64_t e;  // the first element's logical index

    const In* run(std::int64_t first, int n, In* buffer) const {
      std::uint64_t kept[kFoldChunk / kStep] = {};
      const V scale(static_cast<compute_t<In>>(all->a.dropout.scale));
      all->kept.read(e + first * all->a.step, all->a.step, n, kept);
      read_chunk(dy, first, n, In{}, [&](int j, V v) TWINOPS_INLINE_BODY {
        dropped<Isa, In>(kept, j, v, scale, buffer + j);
      });
      return buffer;
    }
  };
  TWINOPS_INLINE Row row(std::int64_t index, RowView<const In, Isa> dy) const {
    return {this, dy, row_offsets(a.outer, index).of[0]};
  }
  static void read_dropped(const GradSource& source, std::int64_t row, const void* dy,
                           std::int64_t first, int n, void* buffer) {
    const auto& all = static_cast<const DroppedDy&>(source);
    const std::int64_t step = all.a.softmax.rows.step[SoftmaxGradArguments::kDy];
    all.row(row, {static_cast<const In*>(dy), step}).run(first, n, static_cast<In*>(buffer));
  }

  const SoftmaxDropoutGradArguments& a;
  RowMasks<Isa> kept;
};

}  // namespace

template <>
void run_cpu_of<SoftmaxDropoutGrad, Isa, In>(const SoftmaxDropoutGradArguments& a,
                                             Execution& execution) {
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  const DroppedDy dy(a, sequence);
  if (a.softmax.mask.is_plain())
    return grad_rows(a.softmax, grad_steps<Isa, In>(a.softmax.types, false), &dy, execution);
  with_out_type<In>(a.softmax.types, [&]<class Out>(TypeTag<Out>) {
    for_each_row(MaskedGradRows<Isa, false, In, Out, DroppedDy>(a.softmax, dy), execution,
                 a.softmax.rows.rows, a.softmax.rows.length);
  });
}

}  // namespace twinops
