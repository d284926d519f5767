// What philox_words and uniform do: one 32-bit value of each element's random word.
#pragma once

#include "operators/layout.hpp"
#include "operators/random.hpp"

namespace twinops {

// Elements that lie side by side, and whose draw indexes follow one another.
struct FlatFill {
  void* out;  // uint32 words, or float32
  std::int64_t elements;
  RandomArguments random;
};

// Any elements: where they are not flat, `layout` says where element i lies.
struct RandomFill : FlatFill {
  bool flat;
  enum Operand { kLogical, kOut, kDraw, kRow, kOperands };
  Layout<kOperands> layout;
};

// Reads and checks all of a call whose output is `name`.
RandomFill read_random_fill(const Call& call, const char* name);

}  // namespace twinops
