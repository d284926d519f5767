// softmax_dropout_grad: one launch where it can be (softmax/softmax_dropout_grad_op.cuh), else
// dropout's kernel from dy to dx, then softmax_grad's over dx in place. Two launches are needed for
// types that differ and float64, for rows along another axis, of no whole vectors, not aligned,
// short or longer than a chunk, under softmax's mask, for a seed a row or on the device, and for
// words of other layouts. Where dx is of another type than dy, what lies between the two is scratch
// memory.
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/broadcast_sums.hpp"
#include "kernels_cuda/softmax/grad_dispatch.cuh"
#include "kernels_cuda/softmax/softmax_dropout_grad_op.cuh"
#include "operators/dropout_grad.hpp"
#include "operators/softmax_dropout_grad.hpp"

namespace twinops {
namespace {

// Shorter rows are faster in two launches: softmax_grad's own kernels have fewer lanes a row
// (docs/lab/softmax-grad-kernels.md#dropout-in-the-same-launch).
constexpr std::int64_t least_length(std::size_t element) { return element == 2 ? 160 : 64; }

// Whether the elements' logical indexes, words and bits of the mask lie as one launch needs them.
bool goes_at_once(const SoftmaxDropoutGradArguments& a, std::size_t element) {
  const DropoutWork& work = a.dropout;
  const SoftmaxGradArguments& s = a.softmax;
  return s.types.in == s.types.out && s.mask.is_plain() && !s.sums_asked() &&
         s.rows.outer.rank <= kKernelAxes && s.rows.length >= least_length(element) &&
         s.rows.length <= kFoldChunk && work.flat && a.step == 1 &&
         reinterpret_cast<std::uintptr_t>(work.mask_in) % 8 == 0 &&
         grad_alignment(s) == Alignment::aligned && draws_whole_blocks(work);
}

template <class T>
SoftmaxDropoutGradParams<T> dropout_grad_params(const SoftmaxDropoutGradArguments& a) {
  using Source = DropoutWork::Source;
  const DropoutWork& work = a.dropout;
  SoftmaxDropoutGradParams<T> params{};
  static_cast<GradParams<T, T>&>(params) = grad_params<T, T>(a.softmax);
  params.draws = work.source == Source::draw;
  params.in_bytes = work.source == Source::bytes;
  params.same = work.source == Source::all ? ~0u : 0u;
  params.mask = params.in_bytes || work.source == Source::bits ? work.mask_in : nullptr;
  params.keep = work.keep.count;
  params.keep_scale = static_cast<compute_t<T>>(work.scale);
  params.random = work.random;
  params.keys = philox_keys(work.random.seed);
  return params;
}

template <class T>
void launch_at_once(const SoftmaxDropoutGradArguments& a, Execution& execution) {
  const CurrentDevice current(execution.device.index);
  const auto params = dropout_grad_params<T>(a);
  with_lane_shape<Shapes::coarse, 16 / sizeof(T), false>(
      params.rows.length, [&]<class S>(TypeTag<S>) {
        constexpr std::int64_t kRows = kShortThreads / S::kLanes;
        launch_rows(execution, softmax_dropout_grad_warp_kernel<T, S>,
                    grid_of((params.rows.rows + kRows - 1) / kRows), kShortThreads, 0, 1, params);
      });
}

bool run_at_once(const SoftmaxDropoutGradArguments& a, Execution& execution) {
  const Type type = a.softmax.types.in;
  if (a.dropout.elements == 0 || type == Type::float64 || !goes_at_once(a, size_of(type)))
    return false;
  if (type == Type::float16)
    launch_at_once<float16>(a, execution);
  else if (type == Type::bfloat16)
    launch_at_once<bfloat16>(a, execution);
  else
    launch_at_once<float>(a, execution);
  execution.random_words = a.dropout.random_words;
  return true;
}

// Dropout from dy to dropout.y, then softmax_grad from there: elements of a row lie `step` apart,
// rows `strides`.
void run_in_two(SoftmaxGradArguments softmax, const DropoutWork& dropout, std::int64_t step,
                const std::int64_t* strides, Execution& execution) {
  run_cuda<DropoutGrad>(dropout, execution);
  softmax.dy = dropout.y;
  softmax.rows.step[kDy] = step;
  std::copy_n(strides, softmax.rows.outer.rank, softmax.rows.outer.stride[kDy]);
  run_cuda<SoftmaxGrad>(softmax, execution);
}

}  // namespace

template <>
void run_cuda<SoftmaxDropoutGrad>(const SoftmaxDropoutGradArguments& a, Execution& execution) {
  const SoftmaxGradArguments& softmax = a.softmax;
  if (execution.allocate == nullptr)  // before anything is written
    const Workspace refused(
        execution,
        scratch_of_sums(softmax) + softmax.combined.bytes() +
            (softmax.sums_asked() && softmax.needs_packed() ? softmax.packed_bytes() : 0));
  if (run_at_once(a, execution)) return;
  DropoutWork dropout = a.dropout;
  if (dropout.y != nullptr)
    return run_in_two(softmax, dropout, softmax.rows.step[kDx], softmax.rows.outer.stride[kDx],
                      execution);
  const Workspace between(execution,
                          static_cast<std::size_t>(dropout.elements) * size_of(dropout.type));
  dropout.y = between.data();
  run_in_two(softmax, dropout, a.step, a.outer.stride[0], execution);
}

}  // namespace twinops
