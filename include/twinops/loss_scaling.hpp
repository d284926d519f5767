// The loss scaling family. twinops.hpp includes it.
#pragma once

#include "twinops/call.hpp"

namespace twinops {

// out[i] = x[i] / scale; found_inf is set if a value is not finite.
// docs/operators/check_finite_and_unscale.md
struct CheckFiniteAndUnscaleOptions {
  const char* check = "output";  // or "input": which values must be finite
  bool reset = false;            // found_inf becomes 0 unless a value is not finite
};
inline Report check_finite_and_unscale(const Tensors& x, const Tensor& scale, const Tensors& out,
                                       const Tensor& found_inf,
                                       const CheckFiniteAndUnscaleOptions& options = {},
                                       const Execution& execution = {}) {
  return Call("check_finite_and_unscale")
      .argument("x", x)
      .argument("scale", scale)
      .argument("out", out)
      .argument("found_inf", found_inf)
      .attribute("check", options.check)
      .attribute("reset", options.reset)
      .run(execution);
}

// The state of dynamic loss scaling: one-element tensors.
struct LossScaleState {
  Tensor scale, good_steps, bad_steps;
};

// out[i] = x[i], or zeros if found_inf; next becomes what follows state, which it may be.
// docs/operators/update_loss_scaling.md
struct UpdateLossScalingOptions {
  int incr_every_n_steps = 1000;
  int decr_every_n_nan_or_inf = 2;
  double incr_ratio = 2.0;
  double decr_ratio = 0.5;
  bool stop_update = false;
};
inline Report update_loss_scaling(const Tensors& x, const Tensor& found_inf,
                                  const LossScaleState& state, const Tensors& out,
                                  const LossScaleState& next,
                                  const UpdateLossScalingOptions& options = {},
                                  const Execution& execution = {}) {
  return Call("update_loss_scaling")
      .argument("x", x)
      .argument("found_inf", found_inf)
      .argument("scale", state.scale)
      .argument("good_steps", state.good_steps)
      .argument("bad_steps", state.bad_steps)
      .argument("out", out)
      .argument("scale_out", next.scale)
      .argument("good_steps_out", next.good_steps)
      .argument("bad_steps_out", next.bad_steps)
      .attribute("incr_every_n_steps", options.incr_every_n_steps)
      .attribute("decr_every_n_nan_or_inf", options.decr_every_n_nan_or_inf)
      .attribute("incr_ratio", options.incr_ratio)
      .attribute("decr_ratio", options.decr_ratio)
      .attribute("stop_update", options.stop_update)
      .run(execution);
}

}  // namespace twinops
