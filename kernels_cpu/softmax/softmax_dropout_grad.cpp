// softmax_dropout_grad: softmax_grad_op.hpp or softmax_grad_masked.hpp, on dy under dropout's mask.
#include "operators/softmax_dropout_grad.hpp"

#include "kernels_cpu/dropout/row_masks.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/softmax_grad_masked.hpp"
#include "kernels_cpu/softmax/softmax_grad_op.hpp"

namespace twinops {
namespace {

template <class In, class Isa>
struct DroppedDy {
  static constexpr bool kInPlace = false;
  using V = compute_vec<In, Isa>;

  struct Row {
    const DroppedDy* all;
    RowView<const In, Isa> dy;
    std::int64_t e;  // the first element's logical index

    TWINOPS_INLINE const In* run(std::int64_t first, int n, In* buffer) const {
      std::uint64_t kept[kFoldChunk / kStep] = {};
      const V scale(static_cast<compute_t<In>>(all->a.dropout.scale));
      all->kept.read(e + first * all->a.step, all->a.step, n, kept);
      read_chunk(dy, first, n, In{}, [&](int j, V v) TWINOPS_INLINE_BODY {
        dropped<Isa, In>(kept, j, v, scale, buffer + j);
      });
      return buffer;
    }
  };

  const SoftmaxDropoutGradArguments& a;
  RowMasks<Isa> kept;

  TWINOPS_INLINE Row row(std::int64_t index, RowView<const In, Isa> dy) const {
    return {this, dy, row_offsets(a.outer, index).of[0]};
  }
};

}  // namespace

template <>
void run_cpu_of<SoftmaxDropoutGrad, isa::TWINOPS_ISA, TWINOPS_ELEMENT>(
    const SoftmaxDropoutGradArguments& a, Execution& execution) {
  using Isa = isa::TWINOPS_ISA;
  using In = TWINOPS_ELEMENT;
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  with_out_type<In>(a.softmax.types, [&]<class Out>(TypeTag<Out>) {
    using Dy = DroppedDy<In, Isa>;
    const Dy dy{a, {a.dropout, sequence}};
    if (!a.softmax.mask.is_plain())
      return for_each_row(MaskedGradRows<Isa, false, In, Out, Dy>(a.softmax, dy), execution,
                          a.softmax.rows.rows, a.softmax.rows.length);
    for_each_row(GradRows<Isa, false, In, Out, Dy>(a.softmax, dy), execution, a.softmax.rows.rows,
                 a.softmax.rows.length);
  });
}

}  // namespace twinops
