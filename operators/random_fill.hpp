// What philox_words and uniform do: one 32-bit value of each element's random word.
#pragma once

#include "operators/layout.hpp"
#include "operators/random.hpp"

namespace twinops {

struct RandomFill {
  void* out;  // uint32 words, or float32
  std::int64_t elements;
  bool flat;  // out is without gaps and draw indexes follow one another
  enum Operand { kLogical, kOut, kDraw, kRow, kOperands };
  Layout<kOperands> walk;
  RandomArguments random;
};

// Reads and checks all of a call whose output is `name`.
RandomFill read_random_fill(const Call& call, const char* name);

}  // namespace twinops
