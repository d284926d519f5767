// The arithmetic of update_loss_scaling: docs/operators/update_loss_scaling.md.
#pragma once

#include "numerics/unscale.hpp"

namespace twinops {

// The state of dynamic loss scaling. F: float or double.
template <class F>
struct LossScale {
  F scale;
  std::int32_t good_steps;  // finite steps since the last change or overflow
  std::int32_t bad_steps;   // overflowing steps since the last change or finite step
};

struct LossScaleRule {
  std::int32_t incr_every_n_steps;
  std::int32_t decr_every_n_nan_or_inf;
  float incr_ratio;
  float decr_ratio;
  float min_scale = 1.0f;  // a scale is lowered no further
};

template <class F>
TWINOPS_INLINE constexpr LossScale<F> next_loss_scale(LossScale<F> s, bool found_inf,
                                                      LossScaleRule rule) {
  if (found_inf) {
    s.good_steps = 0;
    if (s.bad_steps < rule.decr_every_n_nan_or_inf - 1) {
      ++s.bad_steps;
    } else {
      const F lower = s.scale * F(rule.decr_ratio), floor = F(rule.min_scale);
      // A scale below the floor was set there, and is not raised to it.
      if (!(s.scale < floor)) s.scale = canonical(lower < floor ? floor : lower);
      s.bad_steps = 0;
    }
  } else {
    s.bad_steps = 0;
    if (s.good_steps < rule.incr_every_n_steps - 1) {
      ++s.good_steps;
    } else {
      const F higher = s.scale * F(rule.incr_ratio);
      if (is_finite<F>(higher)) s.scale = higher;
      s.good_steps = 0;
    }
  }
  return s;
}

}  // namespace twinops
