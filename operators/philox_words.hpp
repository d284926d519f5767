// philox_words: the random words that elements draw. docs/operators/philox_words.md.
#pragma once

#include "operators/random_fill.hpp"

namespace twinops {

struct PhiloxWords {
  static const OperatorInfo info;
  using Arguments = RandomFill;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
