// dropout. docs/operators/dropout.md.
#pragma once

#include "operators/dropout_work.hpp"

namespace twinops {

struct Dropout {
  static const OperatorInfo info;
  using Arguments = DropoutWork;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
