// softmax_dropout_grad in one launch: softmax_grad's kernel of rows of up to a chunk, which drops
// dy out where it has loaded it.
//
// Memory: probabilities, dy and a stored mask are read once, dx is written once. Rows have
// whole vectors, so a vector draws whole Philox blocks, and has a byte of a bit mask (in float32
// half a byte).
#pragma once

#include "kernels_cuda/dropout/vector.cuh"
#include "kernels_cuda/softmax/draw_words.cuh"
#include "kernels_cuda/softmax/grad_warp_kernel.cuh"

namespace twinops {

// dx has no gaps, so an element's place there is its logical index.
template <class T>
struct SoftmaxDropoutGradParams : GradParams<T, T> {
  bool draws, in_bytes;  // the mask is drawn; the stored one has a byte an element
  std::uint32_t same;    // the bits of a mask that is neither drawn nor stored
  const void* mask;      // the stored one, or nullptr
  std::uint32_t keep;    // words below it keep an element
  compute_t<T> keep_scale;
  RandomArguments random;
  PhiloxKeys keys;

  // at: the logical index of the row's first element.
  template <class S, int V, int R>
  __device__ __forceinline__ void drop_out(const S& fragment, std::int64_t at,
                                           Vector<T, V> (&dy)[R]) const {
    if (draws) {
      const Sequence sequence = random.sequence();
#pragma unroll
      for (int r = 0; r < R; ++r) {
        PhiloxBlock<std::uint32_t> words[V / 4];
        draw_words<V>(true, keys, sequence,
                      random.first + static_cast<std::uint64_t>(at + fragment.place(r)), words);
        drop_elements(dy[r], [&](int e) { return words[e / 4].w[e % 4] < keep; });
      }
      return;
    }
    std::uint32_t bits[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
      bits[r] = mask != nullptr && fragment.whole(r)
                    ? load_vector_mask<V>(mask, in_bytes, (at + fragment.place(r)) / V)
                    : same;
#pragma unroll
    for (int r = 0; r < R; ++r)
      drop_elements(dy[r], [&](int e) { return (bits[r] >> e & 1) != 0; });
  }

 private:
  template <int V, class Kept>
  __device__ __forceinline__ void drop_elements(Vector<T, V>& dy, Kept&& kept) const {
    compute_t<T> values[V];
    widen_vector(dy, values);
#pragma unroll
    for (int e = 0; e < V; ++e) values[e] = dropped_out(kept(e), values[e], keep_scale);
    const Words<T, V> words = narrow_words<T, V, false>(values);
    dy = {make_uint4(words.of[0], words.of[1], words.of[2], words.of[3])};
  }
};
template <class T>
inline constexpr bool kDropsOut<SoftmaxDropoutGradParams<T>> = true;

template <class T, class S>
__global__ void __launch_bounds__(kShortThreads)
    softmax_dropout_grad_warp_kernel(const __grid_constant__ SoftmaxDropoutGradParams<T> params) {
  grad_warp_rows<false, T, S>(params);
}

}  // namespace twinops
