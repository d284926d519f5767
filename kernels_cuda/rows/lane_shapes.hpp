// The shapes in which rows of up to a chunk lie in the lanes of a warp, as tables: how many lanes
// share a row, and how much each of them holds. There is a kernel for each line of a table, so a
// line costs compile time and megabytes; CONTRIBUTING.md says what it has to bring. What these
// tables were measured with, and those before them: docs/lab/softmax-kernel-budget.md.
//
// A row takes the first shape that holds it. Fewer lanes are better as long as registers last:
// what a row costs besides its elements (ends, shuffles, a division) is paid once a lane.
//
// No header of CUDA's: whoever tells which kernel takes a row reads them too (softmax/choice.hpp).
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "numerics/fold.hpp"

namespace twinops {

// aligned: every row of the operand that is read begins and ends at a multiple of 16 bytes, and
// every row of the others at a multiple of as many elements. unaligned: rows begin anywhere, but
// the rows of all operands have the same offset within their vectors. none: elements go one by one.
enum class Alignment { none, unaligned, aligned };

inline constexpr int kMostBlocksOfRow = 16;  // of a cluster
// Warps of a block, a chunk of elements of so many bytes each, that a multiprocessor has registers
// for.
constexpr int row_warps(int bytes) { return bytes == 8 ? 16 : 32; }

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

namespace lane_tables {

// Elements one by one; float64, the same kernels for rows that are aligned.
inline constexpr LaneShape kSingle[] = {{32, 32}};
inline constexpr LaneShape kDouble[] = {{4, 4}, {16, 8}, {32, 8}, {32, 16}};

// float32. Adjacent unaligned rows of up to 127 elements are staged.
inline constexpr LaneShape kFloatCoarse[] = {{8, 4}, {32, 4}, {32, 8}};
inline constexpr LaneShape kFloatUnaligned[] = {{4, 2},  {16, 3}, {16, 4}, {32, 3},
                                                {32, 4}, {32, 6}, {32, 8}};
inline constexpr LaneShape kFloat[] = {{4, 2},  {4, 4},  {8, 4},  {16, 3}, {16, 4},
                                       {32, 3}, {32, 4}, {32, 6}, {32, 8}};

// 16 bits. Adjacent unaligned rows are staged: forward of up to 639 elements, backward of up to
// 895.
inline constexpr LaneShape kHalfCoarse[] = {{8, 4}, {32, 2}, {32, 4}};
inline constexpr LaneShape kHalfUnaligned[] = {{4, 2}, {8, 4}, {32, 3}, {32, 4}};
inline constexpr LaneShape kHalfUnalignedBackward[] = {{4, 2}, {8, 4}, {32, 4}};
inline constexpr LaneShape kHalf[] = {{2, 1}, {2, 2},  {2, 4},  {2, 5},  {4, 3},  {4, 4},
                                      {4, 5}, {4, 6},  {4, 7},  {8, 4},  {8, 5},  {8, 6},
                                      {8, 7}, {16, 4}, {16, 5}, {16, 6}, {16, 7}, {32, 4}};
inline constexpr LaneShape kHalfMasked[] = {{2, 4},  {4, 3},  {4, 4},  {8, 3}, {8, 4},
                                            {16, 3}, {16, 4}, {32, 3}, {32, 4}};
inline constexpr LaneShape kHalfBackward[] = {{2, 2}, {4, 2},  {4, 3},  {4, 4},  {8, 3},
                                              {8, 4}, {16, 3}, {16, 4}, {32, 3}, {32, 4}};

// Staged rows.
inline constexpr LaneShape kStagedFloat[] = {{1, 4},  {1, 8},  {1, 14}, {1, 20},
                                             {2, 20}, {4, 20}, {8, 16}};
inline constexpr LaneShape kStagedHalf[] = {{1, 2},  {1, 4},  {1, 6},  {1, 8},   {1, 11}, {1, 14},
                                            {1, 17}, {1, 20}, {1, 26}, {2, 17},  {2, 20}, {2, 23},
                                            {2, 26}, {4, 17}, {4, 20}, {4, 23},  {4, 26}, {8, 17},
                                            {8, 20}, {8, 23}, {8, 26}, {16, 17}, {16, 20}};
inline constexpr LaneShape kStagedHalfMasked[] = {{1, 8},  {1, 14}, {1, 20}, {2, 14}, {2, 20},
                                                  {4, 14}, {4, 20}, {8, 14}, {8, 20}, {16, 20}};
inline constexpr LaneShape kStagedHalfBackward[] = {{1, 4},  {1, 6},   {1, 10},  {1, 14}, {1, 20},
                                                    {2, 14}, {2, 20},  {4, 14},  {4, 20}, {8, 14},
                                                    {8, 20}, {16, 14}, {16, 20}, {32, 14}};

}  // namespace lane_tables

using LaneShapes = std::span<const LaneShape>;

// V: elements of a vector, 1 where elements lie apart.
constexpr LaneShapes lane_shapes(Shapes shapes, int V, bool unaligned) {
  using namespace lane_tables;
  if (V == 1) return kSingle;
  if (V == 2) return kDouble;
  if (V == 4) {
    if (shapes == Shapes::coarse) return kFloatCoarse;
    return unaligned ? LaneShapes(kFloatUnaligned) : LaneShapes(kFloat);
  }
  switch (shapes) {
    case Shapes::coarse:
      return kHalfCoarse;
    case Shapes::forward:
      return unaligned ? LaneShapes(kHalfUnaligned) : LaneShapes(kHalf);
    case Shapes::masked:
      return unaligned ? LaneShapes(kHalfUnaligned) : LaneShapes(kHalfMasked);
    default:
      return unaligned ? LaneShapes(kHalfUnalignedBackward) : LaneShapes(kHalfBackward);
  }
}

// How many elements a row of this shape may have, wherever it begins. Where the vectors of a lane
// are a power of two, what an unaligned row has beyond the last one comes round to the first.
constexpr int most_elements(LaneShape shape, int V, bool unaligned) {
  const bool wraps = std::has_single_bit(static_cast<unsigned>(shape.count));
  return shape.lanes * shape.count * V - (unaligned && !wraps ? V - 1 : 0);
}

// Whether every line holds longer rows than the one before, and the last one `most` elements.
constexpr bool holds_all(LaneShapes shapes, int V, bool unaligned, int most) {
  int before = 0;
  for (const LaneShape& shape : shapes) {
    if (most_elements(shape, V, unaligned) <= before) return false;
    before = most_elements(shape, V, unaligned);
  }
  return before >= most;
}

// The shapes of staged rows (rows/staged_rows.cuh), for elements of `bytes` bytes. What all rows of
// a line hold is known to the compiler, so a line of few lengths costs fewer instructions, which
// 16-bit rows have none to spare of in the forward pass.
constexpr LaneShapes staged_shapes(Shapes shapes, int bytes) {
  using namespace lane_tables;
  if (bytes == 4) return kStagedFloat;
  if (shapes == Shapes::forward) return kStagedHalf;
  return shapes == Shapes::masked ? LaneShapes(kStagedHalfMasked) : LaneShapes(kStagedHalfBackward);
}

// How many elements a staged row may have: with two elements a word, it may begin in the middle of
// one.
constexpr int most_staged(LaneShape shape, int of_word) {
  return shape.lanes * shape.count * of_word - (of_word - 1);
}

// The longest row that is staged.
constexpr int most_staged_elements(Shapes shapes, int bytes) {
  return most_staged(staged_shapes(shapes, bytes).back(), 4 / bytes);
}

}  // namespace twinops
