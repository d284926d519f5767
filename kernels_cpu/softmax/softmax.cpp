// softmax and log_softmax of elements of one type: the steps that softmax_op.cpp goes through rows
// with, as functions of this type of x and each type of results.
#include "operators/softmax.hpp"

#include "kernels_cpu/kernel.hpp"
#include "kernels_cpu/softmax/chunk.hpp"
#include "kernels_cpu/softmax/short_rows.hpp"
#include "kernels_cpu/softmax/softmax_tile.hpp"

namespace twinops {
namespace {

using Isa = isa::TWINOPS_ISA;
using In = TWINOPS_ELEMENT;
using Compute = compute_t<In>;
using Steps = SoftmaxSteps<Isa, Compute>;

template <bool kLog, class Out>
constexpr Steps steps_of() {
  using Chunk = SoftmaxChunk<Isa, In>;
  using Results = SoftmaxResults<Isa, kLog, In, Out>;
  using Sums = SoftmaxTileSums<Isa, WeighedAs<In>>;
  using TileResults = SoftmaxTileResults<Isa, kLog, In, Out>;
  Steps steps{};
  steps.in_bytes = sizeof(In);
  steps.out_bytes = sizeof(Out);
  steps.log = kLog;
  steps.weights_fit = std::is_same_v<Out, Compute>;
  steps.values = Chunk::values;
  steps.part = SoftmaxWeights<Isa, WeighedAs<In>>::part;
  steps.last = Results::last;
  steps.results = Results::results;
  if constexpr (!kLog) steps.again = Results::again;
  steps.fill = Results::fill;
  steps.plain_short_row = Results::plain_short_row;
  steps.plain_group = SoftmaxRowGroup<Isa, kLog, In, Out>::template take<true>;
  steps.masked_group = SoftmaxRowGroup<Isa, kLog, In, Out>::template take<false>;
  steps.read_tile = SoftmaxTileOf<Isa, In>::read;
  steps.add_up = Sums::template add_up<false>;
  steps.add_up_and_save = Sums::template add_up<true>;
  steps.close_tile = Sums::template close<kLog>;
  steps.write_tile = TileResults::write;
  steps.write_tile_again = TileResults::write_again;
  return steps;
}
template <bool kLog, class Out>
constexpr Steps kSteps = steps_of<kLog, Out>();

}  // namespace

template <>
const SoftmaxSteps<Isa, Compute>& softmax_steps<Isa, In>(TypePair types, bool log) {
  const Steps* steps = nullptr;
  with_out_type<In>(types, [&]<class Out>(TypeTag<Out>) {
    steps = log ? &kSteps<true, Out> : &kSteps<false, Out>;
  });
  return *steps;
}

template <>
void run_cpu_of<Softmax, Isa, In>(const SoftmaxArguments& a, Execution& execution) {
  softmax_rows(a, softmax_steps<Isa, In>(a.types, false), nullptr, execution);
}
template <>
void run_cpu_of<LogSoftmax, Isa, In>(const SoftmaxArguments& a, Execution& execution) {
  softmax_rows(a, softmax_steps<Isa, In>(a.types, true), nullptr, execution);
}

}  // namespace twinops
