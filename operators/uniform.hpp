// philox_words and uniform: the random words that dropout draws, and the floats that cuRAND and
// Triton make of them. docs/operators/uniform.md.
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

struct PhiloxWords {
  static const OperatorInfo info;
  using Arguments = RandomFill;
  static Arguments parse(const Call& call);
};

struct Uniform {
  static const OperatorInfo info;
  using Arguments = RandomFill;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
