// uniform: random numbers from 0 to 1, as cuRAND and Triton make them. docs/operators/uniform.md.
#pragma once

#include "operators/random_fill.hpp"

namespace twinops {

struct Uniform {
  static const OperatorInfo info;
  using Arguments = RandomFill;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
