// What softmax's kernels do to a lane's fragment of a row under a mask of bytes or numbers.
//
// In kernels of aligned rows the mask's rows lie in vectors as x's do, and a lane reads a vector of
// the mask for each vector of x. Where rows are unaligned it reads bytes over 16 bits in words
// (softmax/mask_words.cuh), else element by element. The mask is sent for before x's head and tail
// are distributed, which waits for x. What was measured and tried:
// docs/lab/softmax-mask-kernels.md.
#pragma once

#include <algorithm>

#include "kernels_cuda/rows/lane_io.cuh"
#include "kernels_cuda/softmax/mask_words.cuh"
#include "kernels_cuda/softmax/params.cuh"
#include "numerics/softmax.hpp"
#include "operators/softmax.hpp"
#include "operators/types.hpp"

namespace twinops {

template <class S>
inline constexpr bool kMaskInVectors = !S::kUnaligned && S::kVector >= 4;
// Whether a mask of bytes is applied while x still lies in words of two elements.
template <class S, class In>
inline constexpr bool kMaskOfWords = S::kVector == 8 && sizeof(In) == 2;

// Whether kernels that read vectors take a's scale. A scale of 0 makes NaN of infinity, and goes
// element by element.
inline bool scale_allows_vectors(const SoftmaxArguments& a) { return a.scale != 0; }

// Whether kernels of aligned rows take a's mask: it has none, or every row of it begins where a
// vector of as many elements as 16 bytes of x would.
inline bool mask_is_aligned(const SoftmaxArguments& a) {
  if (a.mask.kind == RowMask::Kind::none) return true;
  const std::size_t v = 16 / size_of(a.types.in);
  const std::size_t bytes = std::min<std::size_t>(16, v * a.mask.element());
  bool lies =
      v >= 4 && a.mask.step == 1 && reinterpret_cast<std::uintptr_t>(a.mask.data) % bytes == 0;
  for (int axis = 0; axis < a.mask_outer.rank; ++axis)
    lies &= a.mask_outer.stride[RowMask::kMask][axis] % static_cast<std::int64_t>(v) == 0;
  return lies;
}

// Sets the sign of each byte that is not 0.
__device__ __forceinline__ std::uint32_t signs_of_bytes(std::uint32_t four) {
  return ((four & 0x7f7f7f7fu) + 0x7f7f7f7fu) | four;
}
// Takes two 16-bit elements from `out` where bytes i and i + 1 of a word have their signs set.
template <int i>
__device__ __forceinline__ std::uint32_t mask_word(std::uint32_t signs, std::uint32_t out,
                                                   std::uint32_t two) {
  const std::uint32_t where = signs_of_two_bytes<i>(signs);
  return (out & where) | (two & ~where);
}

// Takes 16-bit elements from `out` where the mask's byte is not 0.
template <class In>
__device__ __forceinline__ void mask_words(const Words<std::uint8_t, 8>& bytes,
                                           const Vector<In, 8>& out, Vector<In, 8>& vector) {
  const std::uint32_t low = signs_of_bytes(bytes.of[0]), high = signs_of_bytes(bytes.of[1]);
  vector.words = make_uint4(mask_word<0>(low, out.words.x, vector.words.x),
                            mask_word<2>(low, out.words.y, vector.words.y),
                            mask_word<0>(high, out.words.z, vector.words.z),
                            mask_word<2>(high, out.words.w, vector.words.w));
}

// Calls by(row, masked) with the mask's elements from `at` on, and masked(value of x, element),
// which gives what softmax is taken of. kBytes: the mask may be of bytes.
template <class In, bool kBytes = true, class F, class By>
__device__ __forceinline__ void with_mask(const RowMask& mask, std::int64_t at, F scale, By&& by) {
  const auto added = [&](F value, auto m) {
    return scaled_and_masked(value, scale, static_cast<F>(widen(m)));
  };
  switch (mask.kind) {
    case RowMask::Kind::excluded:
      if constexpr (kBytes)
        by(static_cast<const std::uint8_t*>(mask.data) + at,
           [&](F value, std::uint8_t m) { return scaled_where(m == 0, value, scale); });
      return;
    case RowMask::Kind::added:
      return by(static_cast<const In*>(mask.data) + at, added);
    default:
      return by(static_cast<const float*>(mask.data) + at, added);
  }
}

// x under scale and mask, in vectors: load() sends for x, widen() makes x of what came. Elements of
// vectors that the fragment has not got become anything. Not for bytes over 16 bits (mask_words).
// Each kind of mask sends for x itself, except in rows of two lanes
// (docs/lab/softmax-mask-kernels.md#when-x-and-its-mask-are-sent-for).
template <class In, class S, class Load, class Widen>
__device__ __forceinline__ void mask_by_vectors(const S& fragment, const RowMask& mask,
                                                std::int64_t at, float scale, Load&& load,
                                                Widen&& widen, float (&x)[S::kElements]) {
  constexpr bool kForAll = S::kLanes == 2;
  constexpr int V = S::kVector, R = S::kElements / V;
  const auto by = [&]<class M>(TypeTag<M>, auto&& masked) {
    Words<M, V> words[R];
    if (!kForAll) load();
    read_mask(fragment, static_cast<const M*>(mask.data) + at, words);
    widen();
#pragma unroll
    for (int r = 0; r < R; ++r) masked(words[r], x + r * V);
  };
  const auto added = [&]<class M>(const Words<M, V>& words, float* values) {
    float m[V];
    widen_words(words, m);
#pragma unroll
    for (int e = 0; e < V; ++e) values[e] = scaled_and_masked(values[e], scale, m[e]);
  };
  if (kForAll) load();
  switch (mask.kind) {
    case RowMask::Kind::excluded:
      if constexpr (!kMaskOfWords<S, In>)
        by(TypeTag<std::uint8_t>{}, [&](const Words<std::uint8_t, V>& words, float* values) {
#pragma unroll
          for (int e = 0; e < V; ++e)
            values[e] =
                scaled_where((words.of[e / 4] & 0xffu << 8 * (e % 4)) == 0, values[e], scale);
        });
      return;
    case RowMask::Kind::added:
      return by(TypeTag<In>{}, added);
    default:
      return by(TypeTag<float>{}, added);
  }
}

// The same for a mask whose elements lie apart or are all the same. It is rare, so one vector is
// all the code there is: the fragment is rotated by a vector after each.
template <class In, class S, class F>
__device__ __forceinline__ void mask_strided(const S& fragment, const RowMask& mask,
                                             std::int64_t at, F scale, int left,
                                             F (&x)[S::kElements]) {
  constexpr int V = S::kVector;
  const auto masked = [&](F value, std::int64_t place) {
    if (mask.kind == RowMask::Kind::excluded)
      return scaled_where(static_cast<const std::uint8_t*>(mask.data)[place] == 0, value, scale);
    const F m = mask.kind == RowMask::Kind::added
                    ? static_cast<F>(widen(static_cast<const In*>(mask.data)[place]))
                    : static_cast<F>(static_cast<const float*>(mask.data)[place]);
    return scaled_and_masked(value, scale, m);
  };
#pragma unroll 1
  for (int r = 0; r < S::kElements / V; ++r) {
    F done[V];
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const int j = fragment.element(r, e);
      done[e] = is_below(j, left) ? masked(x[e], at + j * mask.step) : x[e];
    }
#pragma unroll
    for (int i = 0; i < S::kElements; ++i)
      x[i] = i < S::kElements - V ? x[i + V] : done[i - (S::kElements - V)];
  }
}

// The same in unaligned rows, element by element. The mask's elements are sent for before x's head
// and tail have arrived; in float32 half of them, for which there are registers.
template <class In, class S>
__device__ __forceinline__ void mask_unaligned(const S& fragment, const In* x_row,
                                               const RowMask& mask, std::int64_t at, float scale,
                                               float (&x)[S::kElements]) {
  constexpr int V = S::kVector, kAhead = S::kElements / (sizeof(In) == 2 ? 1 : 2);
  const In beyond = scale < 0 ? narrow<In>(kInfinity<float>) : kPad<In>;
  Vector<In, V> vectors[S::kElements / V];
  fragment.load_whole_vectors(x_row, 1, beyond, vectors);
  const auto head_tail = fragment.read_head_tail(x_row, beyond);
  const auto by = [&]<class M>(const M* row, auto&& masked) {
    const M* const mine = row + fragment.place(0);
    const auto element = [&](int i) {
      const int r = i / V, e = i % V;
      if (r > 0) return fragment.place(r) + e < fragment.left() ? mine[r * S::kStride + e] : M{};
      const int j = fragment.element(0, e);  // what wraps round lies elsewhere
      return is_below(j, fragment.left()) ? row[j] : M{};
    };
    M ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) ahead[i] = element(i);
    fragment.distribute(head_tail, vectors);
#pragma unroll
    for (int r = 0; r < S::kElements / V; ++r) widen_vector(vectors[r], x + r * V);
#pragma unroll
    for (int i = 0; i < S::kElements; ++i)
      x[i] = masked(x[i], i < kAhead ? ahead[i < kAhead ? i : 0] : element(i));
  };
  with_mask<In, !kMaskOfWords<S, In>>(mask, at, scale, by);
}

// The same in kernels that have elements one by one or, in float64, in pairs: for the first `left`
// elements; others stay as they are.
template <class In, class S, class F>
__device__ __forceinline__ void mask_one_by_one(const S& fragment, const RowMask& mask,
                                                std::int64_t at, F scale, int left,
                                                F (&x)[S::kElements]) {
  if (mask.step != 1) return mask_strided<In>(fragment, mask, at, scale, left, x);
  with_mask<In>(mask, at, scale, [&](const auto* row, auto&& masked) {
#pragma unroll
    for (int i = 0; i < S::kElements; ++i) {
      const int j = fragment.element(i / S::kVector, i % S::kVector);
      if (is_below(j, left)) x[i] = masked(x[i], row[j]);
    }
  });
}

}  // namespace twinops
