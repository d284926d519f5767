// softmax_dropout: one launch where it can be (softmax/softmax_dropout_op.cuh), else softmax's
// kernel and then dropout's over what it wrote, which is read once more. Two launches are needed
// for mixed types and float64, for rows along another axis, of no multiple of eight elements, not
// aligned or longer than a block holds, for a seed a row or on the device, for words of other
// layouts, and for a scale of 0.
#include "kernels_cuda/kernel.hpp"
#include "kernels_cuda/softmax/combined_mask.hpp"
#include "kernels_cuda/softmax/dispatch.cuh"
#include "kernels_cuda/softmax/softmax_dropout_op.cuh"
#include "operators/dropout.hpp"
#include "operators/softmax_dropout.hpp"

namespace twinops {
namespace {

bool is_aligned(const void* p, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

// Whether the elements' logical indexes, words and bits of the mask lie as one launch needs them.
bool goes_at_once(const SoftmaxDropoutArguments& a, std::size_t element) {
  const DropoutWork& work = a.dropout;
  const SoftmaxArguments& s = a.softmax;
  return s.types.in == s.types.out && s.rows.outer.rank <= kSoftmaxAxes && s.rows.rows >> 31 == 0 &&
         work.flat && a.step[SoftmaxDropoutArguments::kLogical] == 1 && s.rows.length % 8 == 0 &&
         is_aligned(work.y, 16) && is_aligned(work.mask_out, 8) && scale_allows_vectors(s) &&
         mask_is_aligned(s) &&
         alignment_of(s.rows, {{s.out, element}, {s.x, element}}, kX) == Alignment::aligned &&
         draws_whole_blocks(work);
}

template <class T>
SoftmaxDropoutParams<T> dropout_params(const SoftmaxDropoutArguments& a) {
  using Source = DropoutWork::Source;
  const DropoutWork& work = a.dropout;
  SoftmaxDropoutParams<T> params{};
  static_cast<SoftmaxParams<T, T>&>(params) = softmax_params<T, T>(a.softmax);
  if (!a.keeps_probabilities) params.out = nullptr;
  params.y = static_cast<T*>(work.y);
  params.elements = work.elements;
  params.sink = work.sink;
  params.mask_out = work.mask_out;
  params.draws = work.source == Source::draw;
  params.keep = params.draws ? work.keep.count : work.source == Source::all ? ~0u : 0u;
  params.keep_scale = static_cast<compute_t<T>>(work.scale);
  params.random = work.random;
  params.keys = philox_keys(work.random.seed);
  return params;
}

// False if rows are too long for one block.
template <class T>
bool launch_at_once(const SoftmaxDropoutArguments& a, Execution& execution) {
  constexpr int V = 16 / sizeof(T);
  using Params = SoftmaxDropoutParams<T>;
  const std::int64_t length = a.softmax.rows.length;
  if (length > Params::kMostWarps * kFoldChunk) return false;
  const CurrentDevice current(execution.device.index);
  const Params params = dropout_params<T>(a);
  length <= kFoldChunk ? launch_warp_rows<false, Shapes::masked, V, false>(params, execution)
                       : launch_block<false, ChunkFragment<V, false>>(params, execution);
  execution.random_words = a.dropout.random_words;
  return true;
}

bool run_at_once(const SoftmaxDropoutArguments& a, Execution& execution) {
  const Type type = a.softmax.types.in;
  if (a.dropout.elements == 0 || type == Type::float64 || !goes_at_once(a, size_of(type)))
    return false;
  if (type == Type::float16) return launch_at_once<float16>(a, execution);
  if (type == Type::bfloat16) return launch_at_once<bfloat16>(a, execution);
  return launch_at_once<float>(a, execution);
}

}  // namespace

template <>
void run_cuda<SoftmaxDropout>(const SoftmaxDropoutArguments& arguments, Execution& execution) {
  with_combined_mask(arguments.softmax, execution, combine_on_cuda,
                     [&](const SoftmaxArguments& softmax) {
                       SoftmaxDropoutArguments a = arguments;
                       a.softmax = softmax;
                       if (run_at_once(a, execution)) return;
                       run_cuda<Softmax>(a.softmax, execution);
                       run_cuda<Dropout>(a.dropout, execution);
                     });
}

}  // namespace twinops
