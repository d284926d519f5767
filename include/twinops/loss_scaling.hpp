// Dynamic loss scaling. twinops.hpp includes this file. The rules: docs/numerics.md, "Loss
// scaling". Lists may hold any number of tensors, of any shapes, strides and mix of floating types.
// Scalars are tensors of one element, on the device of the lists; the host never reads or waits for
// them.
#pragma once

#include "twinops/call.hpp"

namespace twinops {

struct CheckFiniteAndUnscaleOptions {
  // Which values must be finite: "output", those that are stored, as Paddle's GPU operator tests;
  // "input", those that are read, as PyTorch's GradScaler tests.
  const char* check = "output";
  // true: found_inf becomes 0 unless a value is not finite, as Paddle's operator; false: it is set
  // but never cleared, as PyTorch's, so that several calls can share it.
  bool reset = false;
};

// out[i] = x[i] * (1 / scale), written whatever is found; found_inf becomes 1 if a value is
// infinite or NaN. 1 / scale is divided in float64 and rounded to float32 (for float64 tensors:
// kept).
//   x          list, floating
//   scale      float32 or float64, one element: what the loss was multiplied with
//   out        list of as many tensors, shape and type of x[i] each; out[i] may be x[i] itself
//   found_inf  bool, uint8 or float32, one element
// docs/operators/check_finite_and_unscale.md
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

// The state of dynamic loss scaling: tensors of one element.
struct LossScaleState {
  Tensor scale;       // float32 or float64
  Tensor good_steps;  // int32: finite steps since the scale changed or a value was not finite
  Tensor bad_steps;   // int32: steps in a row with a value that is not finite
};

// Names and rule are those of Paddle's update_loss_scaling; the operator's page lists where the
// rule differs. Ratios and min_scale are rounded to float32.
struct UpdateLossScalingOptions {
  int incr_every_n_steps = 1000;    // finite steps that raise the scale; 1 or more
  int decr_every_n_nan_or_inf = 2;  // steps in a row, not finite, that lower it; 1 or more
  double incr_ratio = 2.0;          // the scale is raised by this factor; finite, above 1
  double decr_ratio = 0.5;          // and lowered by this one; between 0 and 1
  bool stop_update = false;         // true: the state stays as it is; tensors are still zeroed
  double min_scale = 1.0;           // but not below this, if it is not there already; above 0
};

// Takes one step of dynamic loss scaling: `next` becomes the state that follows `state`, and out[i]
// becomes x[i], or +0 throughout if found_inf is not 0.
//   x          list, floating: the gradients that check_finite_and_unscale has written
//   found_inf  bool, uint8 or float32, one element
//   state      before the step
//   out        list of as many tensors, shape and type of x[i] each; out[i] may be x[i] itself, and
//              finite gradients are then not touched
//   next       after the step, scale of the type of state.scale; may be `state` itself
// docs/operators/update_loss_scaling.md
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
      .attribute("min_scale", options.min_scale)
      .run(execution);
}

}  // namespace twinops
