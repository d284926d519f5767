// softmax_dropout_grad: softmax_grad_op.hpp or softmax_grad_masked.hpp, on dy under dropout's mask.
#include "operators/softmax_dropout_grad.hpp"

#include "kernels_cpu/dropout/row_masks.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/reduce_rows.hpp"
#include "kernels_cpu/softmax/broadcast_sums.hpp"
#include "kernels_cpu/softmax/combined_mask.hpp"
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
void run_cpu<SoftmaxDropoutGrad, isa::TWINOPS_ISA>(const SoftmaxDropoutGradArguments& a,
                                                   Execution& execution) {
  using Isa = isa::TWINOPS_ISA;
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  const auto run = [&](const SoftmaxGradArguments& softmax) {
    run_with_sums(
        softmax, execution,
        [&](const SoftmaxGradArguments& part) {
          with_type_pair(part.types, [&]<class In, class Out>(TypeTag<In>, TypeTag<Out>) {
            using Dy = DroppedDy<In, Isa>;
            const Dy dy{a, {a.dropout, sequence}};
            const std::int64_t rows = part.rows.rows, length = part.rows.length;
            if (!part.mask.is_plain())
              return for_each_row(MaskedGradRows<Isa, false, In, Out, Dy>(part, dy), execution,
                                  rows, length);
            for_each_row(GradRows<Isa, false, In, Out, Dy>(part, dy), execution, rows, length);
          });
        },
        [&](const BroadcastSums& sums, const void* values, BroadcastSums::Place place) {
          broadcast_sums_on_cpu(sums, values, place, execution);
        });
  };
  with_combined_mask(a.softmax, execution, combine_on_cpu, run);
}

}  // namespace twinops
