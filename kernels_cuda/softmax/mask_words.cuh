// A mask's row in words that go with a lane's vectors of x's row.
//
// Where x's rows are unaligned, the mask's may be too. A lane then reads the words of 4 bytes that
// hold what goes with a vector, and shifts them into place: of bytes three reads for eight
// elements. A word that reaches beyond the row is put together from those of its elements that are
// the row's, so that no byte outside of the row is touched: one word at either end, which every
// lane makes.
#pragma once

#include "kernels_cuda/rows/lane_io.cuh"

namespace twinops {

// Reads what goes with a lane's whole vectors from the mask's row at `row`; 0 where a vector is not
// whole.
template <class M, class S, int V, int R>
__device__ __forceinline__ void read_mask(const S& fragment, const M* row,
                                          Words<M, V> (&words)[R]) {
  const M* const mine = row + fragment.place(0);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    words[r] = {};
    if (fragment.whole(r)) words[r] = read_words<V>(mine + r * S::kStride);
  }
}

// Three bytes of a word, from the kFirst-th on, of which only the row's are read: the row's first
// byte is byte `first` of the word, and it has `count`.
template <int kFirst>
__device__ __forceinline__ std::uint32_t bytes_of_word(const std::uint8_t* word, int first,
                                                       int count) {
  std::uint32_t bytes = 0;
#pragma unroll
  for (int i = kFirst; i < kFirst + 3; ++i)
    if (is_below(i - first, count)) bytes |= std::uint32_t{word[i]} << 8 * i;
  return bytes;
}

// The same for bytes that begin anywhere; anything where a vector is not whole.
template <class S, int R>
__device__ __forceinline__ void read_mask_unaligned(const S& fragment, const std::uint8_t* row,
                                                    Words<std::uint8_t, 8> (&words)[R]) {
  const int begin = static_cast<int>(reinterpret_cast<std::uintptr_t>(row)) & 3;
  const int left = fragment.left(), end = (begin + left) & 3;
  const std::uint32_t first = bytes_of_word<1>(row - begin, begin, left);
  const std::uint32_t last = bytes_of_word<0>(row + (left - end), end - left, left);
  const int ahead = (begin + fragment.place(0)) & 3;  // bytes of a vector's first word before it
  const auto* const from =
      reinterpret_cast<const std::uint32_t*>(row + (fragment.place(0) - ahead));
  const int after = fragment.place(0) - ahead + 12;  // where a vector's last word ends
#pragma unroll
  for (int r = 0; r < R; ++r) {
    std::uint32_t of[3] = {first, 0, last};
    const std::uint32_t* const at = from + r * S::kStride / 4;
    const bool whole = fragment.whole(r);
    if (whole && (r > 0 || fragment.place(0) >= ahead)) of[0] = at[0];
    if (whole) of[1] = at[1];
    if (whole && after + r * S::kStride <= left) of[2] = at[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      words[r].of[i] = __funnelshift_r(of[i], of[i + 1], 8u * static_cast<unsigned>(ahead));
  }
}

// Makes elements of x's head and tail `none` where the mask's byte is not 0, and turns their signs
// before that if asked for.
template <class S, class In>
__device__ __forceinline__ void mask_head_tail(const S& fragment, const std::uint8_t* row,
                                               bool turn, In none,
                                               typename S::template HeadTail<In>& head_tail) {
  const auto bytes = fragment.read_head_tail(row, std::uint8_t{0});
#pragma unroll
  for (int k = 0; k < S::kHeadTail; ++k) {
    if (turn) head_tail.of[k].bits ^= 0x8000;
    if (bytes.of[k] != 0) head_tail.of[k] = none;
  }
}

}  // namespace twinops
