// The operator table.
#pragma once

#include "operators/call.hpp"
#include "operators/execution.hpp"

namespace twinops {

struct Operator {
  const OperatorInfo* info;
  // Checks the call, then runs the kernel of a row of rows().
  void (*run)(const Call& call, std::size_t row, Execution& execution);
};

std::span<const Operator> operators();
const Operator* find_operator(const char* name);

}  // namespace twinops
