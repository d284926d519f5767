// softmax_dropout_grad: rows as by softmax_grad, on dy under dropout's mask.
#include "operators/softmax_dropout_grad.hpp"

#include "kernels_cpu/dropout/row_masks.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/rows/offsets.hpp"
#include "kernels_cpu/softmax/softmax_grad_steps.hpp"

namespace twinops {
namespace {

using Isa = isa::TWINOPS_ISA;
using In = TWINOPS_ELEMENT;
using V = compute_vec<In, Isa>;

struct DroppedDy : GradSource {
  const SoftmaxDropoutGradArguments& a;
  RowMasks<Isa> kept;
};

void read_dropped(const GradSource& source, std::int64_t row, const void* from, std::int64_t first,
                  int n, void* to) {
  const auto& dropped_dy = static_cast<const DroppedDy&>(source);
  const SoftmaxDropoutGradArguments& a = dropped_dy.a;
  In* const buffer = static_cast<In*>(to);
  const RowView<const In, Isa> row_of_dy{static_cast<const In*>(from),
                                         a.softmax.rows.step[SoftmaxGradArguments::kDy]};
  const RowView<const In, Isa> dy{dense_run(row_of_dy, first, n, buffer), 1};
  std::uint64_t kept[kFoldChunk / kStep] = {};
  const V scale(static_cast<compute_t<In>>(a.dropout.scale));
  dropped_dy.kept.read(row_offsets(a.outer, row).of[0] + first * a.step, a.step, n, kept);
  read_chunk(dy, 0, n, In{}, [&](int j, V v) TWINOPS_INLINE_BODY {
    dropped<Isa, In>(kept, j, v, scale, buffer + j);
  });
}

}  // namespace

template <>
void run_cpu_of<SoftmaxDropoutGrad, Isa, In>(const SoftmaxDropoutGradArguments& a,
                                             Execution& execution) {
  execution.random_words = a.dropout.random_words;
  const Sequence sequence = a.dropout.random.sequence();
  const DroppedDy dy{{read_dropped}, a, {a.dropout, sequence}};
  grad_rows(a.softmax, grad_steps<Isa, In>(a.softmax.types, false), &dy, execution);
}

}  // namespace twinops
