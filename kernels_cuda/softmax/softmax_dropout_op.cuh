// softmax_dropout in one launch: softmax's kernels, with dropout where probabilities are stored.
//
// Memory: x is read once and y written once; probabilities and the mask are written where they are
// kept. A lane has whole vectors of a row, so the words that a vector draws are whole Philox
// blocks, and its bits of the mask are a byte (in float32 half a byte, joined with a neighbour's by
// a shuffle). That takes rows of a multiple of eight elements. For 16-bit types instructions are
// the limit, and a third of them are Philox's.
#pragma once

#include "kernels_cuda/dropout/vector.cuh"
#include "kernels_cuda/softmax/draw_words.cuh"
#include "kernels_cuda/softmax/softmax_op.cuh"

namespace twinops {

// Rows follow one another without gaps in out and y, so an element's place there is its logical
// index.
template <class T>
struct SoftmaxDropoutParams : SoftmaxParams<T, T> {
  static constexpr int kMostWarps = 16;  // of a block: the draws take registers

  T* y;  // `out` is nullptr where probabilities are not kept
  std::int64_t elements;
  DropoutWork::Sink sink;
  void* mask_out;
  bool draws;          // else every word is 0
  std::uint32_t keep;  // words below it keep an element
  compute_t<T> keep_scale;
  RandomArguments random;
  PhiloxKeys keys;  // of a seed that the host knows: constants of the launch
};

// All lanes of the warp; `whole`: the vector is the row's.
template <int V, class T>
__device__ __forceinline__ void store_kept(const SoftmaxDropoutParams<T>& params, std::int64_t i,
                                           bool whole, std::uint32_t bits) {
  if (params.sink == DropoutWork::Sink::bits)
    store_vector_mask<V, false>(params.mask_out, i / V, whole, bits);
  else if (params.sink == DropoutWork::Sink::bytes)
    store_vector_mask<V, true>(params.mask_out, i / V, whole, bits);
}

template <bool kLog, class S, class T, class F>
__device__ __forceinline__ void store_fragment(const SoftmaxDropoutParams<T>& params,
                                               const S& fragment, std::int64_t at, std::int64_t,
                                               F (&x)[S::kElements], F row_max, F last) {
  static_assert(!kLog);
  constexpr int V = S::kVector;
  const RowKind kind = kind_of_row(row_max);
  if (kind != RowKind::ordinary) {
#pragma unroll
    for (F& p : x) p = special_row<F>(kind, params.masked_is_zero, false);
    last = F(1);
  }
  const LastStep<false, false, T, F> last_step(row_max, last);
  const Sequence sequence = params.random.sequence();
#pragma unroll
  for (int r = 0; r < S::kElements / V; ++r) {
    const std::int64_t i = at + fragment.place(r);
    const bool whole = fragment.whole(r);
    F values[V];
#pragma unroll
    for (int e = 0; e < V; ++e) values[e] = x[r * V + e];
    last_step(values);
    const Words<T, V> p = narrow_words<T, V, false>(values);
    if (whole && params.out != nullptr) write_words(params.out + i, p);
    widen_vector(Vector<T, V>{make_uint4(p.of[0], p.of[1], p.of[2], p.of[3])}, values);
    PhiloxBlock<std::uint32_t> words[V / 4];
    draw_words<V>(params.draws, params.keys, sequence,
                  params.random.first + static_cast<std::uint64_t>(i), words);
    std::uint32_t bits = 0;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const bool kept = words[e / 4].w[e % 4] < params.keep;
      or_if(kept, bits, 1u << e);
      values[e] = dropped_out(kept, values[e], params.keep_scale);
    }
    if (whole) write_words(params.y + i, narrow_words<T, V, false>(values));
    store_kept<V>(params, i, whole, bits);
  }
  // The padding bits of the mask's last word.
  if (params.sink == DropoutWork::Sink::bits && fragment.left() > 0 &&
      at + fragment.left() == params.elements)
    for (std::int64_t byte = params.elements / 8 + fragment.lane();
         byte < (params.elements + 31) / 32 * 4; byte += S::kLanes)
      static_cast<std::uint8_t*>(params.mask_out)[byte] = 0;
}

}  // namespace twinops
