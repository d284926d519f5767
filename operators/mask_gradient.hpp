// The gradient of what was added to softmax's x: sums of the gradient of softmax's values over the
// axes that it was broadcast over. docs/operators/softmax_grad.md.
#pragma once

#include <cstdint>

#include "numerics/qualifiers.hpp"
#include "operators/execution.hpp"
#include "operators/layout.hpp"
#include "operators/operator.hpp"

namespace twinops {

// Each sum is over the axes of x that the added tensor lacks or has once, in the order of
// numerics/fold.hpp over their elements, the last axis fastest.
struct BroadcastSums {
  void* out = nullptr;  // without gaps; nullptr: not asked for
  Type type = Type::float32;
  std::int64_t rows = 0, columns = 0;  // values of a sum, sums
  // Where values lie: in memory of x's shape without gaps, and in dx.
  enum Place { kPacked, kDx };
  Layout<2> row_axes, column_axes;

  TWINOPS_INLINE bool asked() const { return out != nullptr; }
};

// Reads the output `name`, the gradient of the input `of`, which is broadcast to the shape of dx.
BroadcastSums read_broadcast_sums(const Call& call, const char* name, const char* of,
                                  const Tensor& dx);

}  // namespace twinops
