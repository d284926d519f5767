// The shapes in which rows of up to a chunk lie in the lanes of a warp, as tables: how many lanes
// share a row, and how much each of them holds. There is a kernel for each line of a table, so a
// line costs compile time and megabytes; CONTRIBUTING.md says what it has to bring. What these
// tables were measured with, and those before them: docs/lab/softmax-kernel-budget.md.
//
// A row takes the first shape that holds it. Fewer lanes are better as long as registers last:
// what a row costs besides its elements (ends, shuffles, a division) is paid once a lane.
#pragma once

#include <array>
#include <bit>

#include "kernels_cuda/rows/lane_io.cuh"
#include "numerics/fold.hpp"
#include "operators/types.hpp"

namespace twinops {

// `lanes` lanes share a row, each of which holds `count` vectors of 16 bytes; of a staged row,
// `count` words of 4 bytes.
struct LaneShape {
  int lanes, count;
};

// Which table a kernel's rows are found in.
enum class Shapes {
  forward,   // a plain softmax
  masked,    // under a scale or a mask, which take registers, too
  backward,  // of two tensors
  coarse,    // types that differ, which few people have: few kernels
};

// V: elements of a vector, 1 where elements lie apart.
template <Shapes kShapes, int V, bool kUnaligned>
constexpr auto lane_shapes() {
  constexpr bool kForwardPass = kShapes != Shapes::backward;
  if constexpr (V == 1)
    return std::to_array<LaneShape>({{32, 32}});
  else if constexpr (V == 2)  // float64, the same kernels for rows that are aligned
    return std::to_array<LaneShape>({{4, 4}, {16, 8}, {32, 8}, {32, 16}});
  else if constexpr (V == 4 && kShapes == Shapes::coarse)
    return std::to_array<LaneShape>({{8, 4}, {32, 4}, {32, 8}});
  else if constexpr (V == 4 && kUnaligned)  // adjacent rows of up to 127 elements are staged
    return std::to_array<LaneShape>({{4, 2}, {16, 3}, {16, 4}, {32, 3}, {32, 4}, {32, 6}, {32, 8}});
  else if constexpr (V == 4)
    return std::to_array<LaneShape>(
        {{4, 2}, {4, 4}, {8, 4}, {16, 3}, {16, 4}, {32, 3}, {32, 4}, {32, 6}, {32, 8}});
  else if constexpr (kShapes == Shapes::coarse)
    return std::to_array<LaneShape>({{8, 4}, {32, 2}, {32, 4}});
  else if constexpr (kUnaligned && kForwardPass)  // adjacent rows of up to 639 elements are staged
    return std::to_array<LaneShape>({{4, 2}, {8, 4}, {32, 3}, {32, 4}});
  else if constexpr (kUnaligned)  // and backward of up to 895
    return std::to_array<LaneShape>({{4, 2}, {8, 4}, {32, 4}});
  else if constexpr (kShapes == Shapes::forward)
    return std::to_array<LaneShape>({{2, 1},
                                     {2, 2},
                                     {2, 4},
                                     {2, 5},
                                     {4, 3},
                                     {4, 4},
                                     {4, 5},
                                     {4, 6},
                                     {4, 7},
                                     {8, 4},
                                     {8, 5},
                                     {8, 6},
                                     {8, 7},
                                     {16, 4},
                                     {16, 5},
                                     {16, 6},
                                     {16, 7},
                                     {32, 4}});
  else if constexpr (kShapes == Shapes::masked)
    return std::to_array<LaneShape>(
        {{2, 4}, {4, 3}, {4, 4}, {8, 3}, {8, 4}, {16, 3}, {16, 4}, {32, 3}, {32, 4}});
  else
    return std::to_array<LaneShape>(
        {{2, 2}, {4, 2}, {4, 3}, {4, 4}, {8, 3}, {8, 4}, {16, 3}, {16, 4}, {32, 3}, {32, 4}});
}

// How many elements a row of this shape may have, wherever it begins. Where the vectors of a lane
// are a power of two, what an unaligned row has beyond the last one comes round to the first.
constexpr int most_elements(LaneShape shape, int V, bool unaligned) {
  const bool wraps = std::has_single_bit(static_cast<unsigned>(shape.count));
  return shape.lanes * shape.count * V - (unaligned && !wraps ? V - 1 : 0);
}

// Whether every line holds longer rows than the one before, and the last one `most` elements.
template <std::size_t N>
constexpr bool holds_all(const std::array<LaneShape, N>& shapes, int V, bool unaligned, int most) {
  int before = 0;
  for (const LaneShape& shape : shapes) {
    if (most_elements(shape, V, unaligned) <= before) return false;
    before = most_elements(shape, V, unaligned);
  }
  return before >= most;
}

// Calls launch(TypeTag<LaneFragment>) with how a row of `length`, up to kFoldChunk, lies in lanes.
template <Shapes kShapes, int V, bool kUnaligned, std::size_t kLine = 0, class Launch>
void with_lane_shape(std::int64_t length, Launch&& launch) {
  constexpr auto kTable = lane_shapes<kShapes, V, kUnaligned>();
  static_assert(holds_all(kTable, V, kUnaligned, kFoldChunk));
  constexpr LaneShape kShape = kTable[kLine];
  if constexpr (kLine + 1 < kTable.size())
    if (length > most_elements(kShape, V, kUnaligned))
      return with_lane_shape<kShapes, V, kUnaligned, kLine + 1>(length, launch);
  launch(TypeTag<LaneFragment<kShape.lanes, kShape.count, V, kUnaligned>>());
}

// The shapes of staged rows (rows/staged_rows.cuh), for elements of `kBytes` bytes. What all rows
// of a line hold is known to the compiler, so a line of few lengths costs fewer instructions, which
// 16-bit rows have none to spare of in the forward pass.
template <Shapes kShapes, int kBytes>
constexpr auto staged_shapes() {
  if constexpr (kBytes == 4)
    return std::to_array<LaneShape>({{1, 4}, {1, 8}, {1, 14}, {1, 20}, {2, 20}, {4, 20}, {8, 16}});
  else if constexpr (kShapes == Shapes::forward)
    return std::to_array<LaneShape>({{1, 2},  {1, 4},  {1, 6},  {1, 8},   {1, 11}, {1, 14},
                                     {1, 17}, {1, 20}, {1, 26}, {2, 17},  {2, 20}, {2, 23},
                                     {2, 26}, {4, 17}, {4, 20}, {4, 23},  {4, 26}, {8, 17},
                                     {8, 20}, {8, 23}, {8, 26}, {16, 17}, {16, 20}});
  else if constexpr (kShapes == Shapes::masked)
    return std::to_array<LaneShape>(
        {{1, 8}, {1, 14}, {1, 20}, {2, 14}, {2, 20}, {4, 14}, {4, 20}, {8, 14}, {8, 20}, {16, 20}});
  else
    return std::to_array<LaneShape>({{1, 4},
                                     {1, 6},
                                     {1, 10},
                                     {1, 14},
                                     {1, 20},
                                     {2, 14},
                                     {2, 20},
                                     {4, 14},
                                     {4, 20},
                                     {8, 14},
                                     {8, 20},
                                     {16, 14},
                                     {16, 20},
                                     {32, 14}});
}

// How many elements a staged row may have: with two elements a word, it may begin in the middle of
// one.
constexpr int most_staged(LaneShape shape, int of_word) {
  return shape.lanes * shape.count * of_word - (of_word - 1);
}

}  // namespace twinops
