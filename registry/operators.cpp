#include "registry/operators.hpp"

#include <array>

#include "kernels_cpu/isa_list.hpp"
#include "kernels_cpu/kernel.hpp"
#include "kernels_cuda/kernel.hpp"
#include "operators/bias_dropout_residual.hpp"
#include "operators/bias_dropout_residual_grad.hpp"
#include "operators/check_finite_and_unscale.hpp"
#include "operators/dropout.hpp"
#include "operators/dropout_grad.hpp"
#include "operators/names.hpp"
#include "operators/philox_words.hpp"
#include "operators/random_projection.hpp"
#include "operators/softmax.hpp"
#include "operators/softmax_dropout.hpp"
#include "operators/softmax_dropout_grad.hpp"
#include "operators/softmax_grad.hpp"
#include "operators/uniform.hpp"
#include "operators/update_loss_scaling.hpp"
#include "registry/rows.hpp"

namespace twinops {
namespace {

// An operator's kernels in the order of rows(); one that is missing does not link.
template <class Op, class... Isa>
constexpr auto kernels(IsaList<Isa...>) {
#if defined(TWINOPS_HAS_CUDA)
  return std::array{&run_cuda<Op>, &run_cpu<Op, Isa>..., &run_reference<Op>};
#else
  return std::array{static_cast<decltype(&run_reference<Op>)>(nullptr), &run_cpu<Op, Isa>...,
                    &run_reference<Op>};
#endif
}

template <class Op>
void run(const Call& call, std::size_t row, Execution& execution) {
  static constexpr auto kKernels = kernels<Op>(CpuIsas{});
  kKernels[row](Op::parse(call), execution);
}

template <class... Op>
constexpr auto table() {
  return std::array{Operator{&Op::info, &run<Op>}...};
}

constexpr auto kOperators =
    table<CheckFiniteAndUnscale, UpdateLossScaling, Dropout, DropoutGrad, BiasDropoutResidual,
          BiasDropoutResidualGrad, Softmax, LogSoftmax, SoftmaxGrad, LogSoftmaxGrad, SoftmaxDropout,
          SoftmaxDropoutGrad, PhiloxWords, Uniform, RandomProjection, RandomProjectionGrad>();

}  // namespace

std::span<const Operator> operators() { return kOperators; }

const Operator* find_operator(const char* name) {
  for (const Operator& op : kOperators)
    if (same_name(name, op.info->name)) return &op;
  return nullptr;
}

}  // namespace twinops
