// A mask over rows in shared memory (rows/staged_rows.cuh). The mask's own rows stay in global
// memory, elements side by side from `row` on.
#pragma once

#include "kernels_cuda/rows/staged_rows.cuh"
#include "kernels_cuda/softmax/mask.cuh"

namespace twinops {

// The mask's elements, of 8 or 16 bits, for a lane's words of two elements: in pairs, 0 where the
// row has none. They are read together if they lie so that they can be.
template <class M, class S, int R>
__device__ __forceinline__ void read_pairs(const S& fragment, const M* row,
                                           std::uint32_t (&pairs)[R]) {
  using One = std::conditional_t<sizeof(M) == 1, std::uint8_t, std::uint16_t>;
  using Two = std::conditional_t<sizeof(M) == 1, std::uint16_t, std::uint32_t>;
  const auto* const mine = reinterpret_cast<const One*>(row + fragment.place(0));
  const auto one = [](One element) { return std::uint32_t{element}; };
  const auto by = [&](auto&& two) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const One* const at = mine + r * S::kStride;
      const bool first = fragment.has(2 * r), last = fragment.has(2 * r + 1);
      pairs[r] = 0;
      if (first && last)
        pairs[r] = two(at);
      else if (first)
        pairs[r] = one(at[0]);
      else if (last)
        pairs[r] = one(at[1]) << 8 * sizeof(M);
    }
  };
  if (reinterpret_cast<std::uintptr_t>(mine) % sizeof(Two) == 0)
    by([](const One* at) -> std::uint32_t { return *reinterpret_cast<const Two*>(at); });
  else
    by([&](const One* at) { return one(at[0]) | one(at[1]) << 8 * sizeof(M); });
}

// Makes 16-bit elements -infinity where the mask's byte is not 0.
template <class S, class In, int R>
__device__ __forceinline__ void exclude_staged(const S& fragment, const std::uint8_t* row,
                                               Vector<In, 2> (&vectors)[R]) {
  constexpr std::uint32_t kExcluded = kPad<In>.bits * 0x10001u;
  std::uint32_t bytes[R];
  read_pairs(fragment, row, bytes);
#pragma unroll
  for (int r = 0; r < R; ++r)
    vectors[r].word = mask_word<0>(signs_of_bytes(bytes[r]), kExcluded, vectors[r].word);
}

// Widens vectors under scale and mask; elements that are not the row's become anything. Not for
// bytes over 16 bits.
template <class In, class S, int V, int R, class F>
__device__ __forceinline__ void mask_staged(const S& fragment, const RowMask& mask, std::int64_t at,
                                            F scale, const Vector<In, V> (&vectors)[R],
                                            F (&x)[R * V]) {
  const auto by = [&]<class M>(const M* row, auto&& masked) {
    const M* const mine = row + fragment.place(0);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      widen_vector(vectors[r], x + r * V);
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (fragment.has(r * V + e)) x[r * V + e] = masked(x[r * V + e], mine[r * S::kStride + e]);
    }
  };
  const auto added = [&](F value, auto m) { return scaled_and_masked(value, scale, widen(m)); };
  switch (mask.kind) {
    case RowMask::Kind::excluded:
      if constexpr (V == 1)
        by(static_cast<const std::uint8_t*>(mask.data) + at,
           [&](F value, std::uint8_t m) { return scaled_where(m == 0, value, scale); });
      return;
    case RowMask::Kind::added:
      if constexpr (V == 2 && R < 18) {  // more would spill
        std::uint32_t pairs[R];
        read_pairs(fragment, static_cast<const In*>(mask.data) + at, pairs);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const float2 two = widen_two(vectors[r].word, In{}), m = widen_two(pairs[r], In{});
          x[2 * r] = scaled_and_masked(two.x, scale, m.x);
          x[2 * r + 1] = scaled_and_masked(two.y, scale, m.y);
        }
      } else {
        by(static_cast<const In*>(mask.data) + at, added);
      }
      return;
    default:
      return by(static_cast<const float*>(mask.data) + at, added);
  }
}

}  // namespace twinops
