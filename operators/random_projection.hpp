// random_projection, y = x R, and random_projection_grad, dx = dy R^T, for a sparse matrix R of
// +1, 0 and -1 that is drawn as it is used and never stored. docs/operators/random_projection.md.
#pragma once

#include "numerics/projection.hpp"
#include "operators/layout.hpp"
#include "operators/random.hpp"

namespace twinops {

// Both directions are one product:
//   y[r, o] = scale * (the sum over t < terms of x[r, t] * entry(t, o)),
// where entry(t, o) is R[t, o] forward and R[o, t] backward.
struct Projection {
  Type type;
  const void* x;
  void* y;
  std::int64_t rows, terms, outputs;
  enum Operand { kY, kX, kOperands };
  Layout<kOperands> outer;  // where rows begin
  std::int64_t y_step, x_step;
  bool backward;
  std::uint32_t words;  // that give +1, and that give -1
  double scale;         // rounded to the compute type already
  RandomArguments random;

  // The draw index of entry(t, o).
  TWINOPS_INLINE std::uint64_t draw(std::int64_t t, std::int64_t o) const {
    return random.first + static_cast<std::uint64_t>(backward ? o * terms + t : t * outputs + o);
  }
};

struct RandomProjection {
  static const OperatorInfo info;
  using Arguments = Projection;
  static Arguments parse(const Call& call);
};

struct RandomProjectionGrad {
  static const OperatorInfo info;
  using Arguments = Projection;
  static Arguments parse(const Call& call);
};

}  // namespace twinops
