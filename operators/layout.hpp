// Where the elements of N tensors of one shape lie, in as few axes as describe it.
#pragma once

#include <array>
#include <cstdint>

namespace twinops {

inline constexpr int kMaxAxes = 16;  // after merging; real tensors have two or three
// No tensor has more of two elements or more: its bytes fit 63 bits.
inline constexpr int kMostAxes = 62;

// kAxes: how many there is room for.
template <int N, int kAxes = kMaxAxes>
struct Layout {
  int rank = 0;
  std::int64_t size[kAxes];       // outermost first
  std::int64_t stride[N][kAxes];  // in elements

  // All N tensors are one run of consecutive elements, in the same order.
  bool dense() const {
    if (rank == 0) return true;
    if (rank > 1) return false;
    for (int k = 0; k < N; ++k)
      if (stride[k][0] != 1) return false;
    return true;
  }
};

// Fills `layout` from a shape and N arrays of strides: drops axes of one element, orders the axes
// by operand 0's strides (elementwise work may visit elements in any order), merges neighbours that
// all N tensors walk as one. Returns false if more than kAxes are left.
template <int N, int kAxes>
bool collapse(Layout<N, kAxes>& layout, int rank, const std::int64_t* shape,
              const std::array<const std::int64_t*, N>& strides);

extern template bool collapse<1>(Layout<1, kMostAxes>&, int, const std::int64_t*,
                                 const std::array<const std::int64_t*, 1>&);
extern template bool collapse<2>(Layout<2>&, int, const std::int64_t*,
                                 const std::array<const std::int64_t*, 2>&);
extern template bool collapse<4>(Layout<4>&, int, const std::int64_t*,
                                 const std::array<const std::int64_t*, 4>&);
extern template bool collapse<7>(Layout<7>&, int, const std::int64_t*,
                                 const std::array<const std::int64_t*, 7>&);
extern template bool collapse<8>(Layout<8>&, int, const std::int64_t*,
                                 const std::array<const std::int64_t*, 8>&);
extern template bool collapse<3>(Layout<3>&, int, const std::int64_t*,
                                 const std::array<const std::int64_t*, 3>&);

}  // namespace twinops
