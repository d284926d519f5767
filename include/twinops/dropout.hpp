// The dropout family. twinops.hpp includes it.
#pragma once

#include "twinops/random.hpp"

namespace twinops {

struct DropoutOptions {
  double p = 0.5;
  const char* mode = "upscale_in_train";  // or "downgrade_in_infer"
  bool training = true;
  RandomOptions random = {};

  Call& add_to(Call& call) const {
    return random.add_to(
        call.attribute("p", p).attribute("mode", mode).attribute("training", training));
  }
};

// y = x with elements dropped at random, the others scaled; the mask is stored if there is one.
// docs/operators/dropout.md
inline Report dropout(const Tensor& x, const Tensor& y, const std::optional<Tensor>& mask = {},
                      const DropoutOptions& options = {}, const Execution& execution = {}) {
  Call call("dropout");
  call.argument("x", x).argument("y", y);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// dx, from dropout's mask, or, without one, from the mask drawn again.
inline Report dropout_grad(const Tensor& dy, const Tensor& dx,
                           const std::optional<Tensor>& mask = {},
                           const DropoutOptions& options = {}, const Execution& execution = {}) {
  Call call("dropout_grad");
  call.argument("dy", dy).argument("dx", dx);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// y = dropout(x + bias) + residual; bias and residual may be left out.
// docs/operators/bias_dropout_residual.md
struct BiasAndResidual {
  std::optional<Tensor> bias = {}, residual = {};
};
inline Report bias_dropout_residual(const Tensor& x, const BiasAndResidual& terms, const Tensor& y,
                                    const std::optional<Tensor>& mask = {},
                                    const DropoutOptions& options = {},
                                    const Execution& execution = {}) {
  Call call("bias_dropout_residual");
  call.argument("x", x).argument("y", y);
  if (terms.bias) call.argument("bias", *terms.bias);
  if (terms.residual) call.argument("residual", *terms.residual);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// dx, and dbias, the sum of dx over all axes but the last, if it is given.
inline Report bias_dropout_residual_grad(const Tensor& dy, const Tensor& dx,
                                         const std::optional<Tensor>& dbias = {},
                                         const std::optional<Tensor>& mask = {},
                                         const DropoutOptions& options = {},
                                         const Execution& execution = {}) {
  Call call("bias_dropout_residual_grad");
  call.argument("dy", dy).argument("dx", dx);
  if (dbias) call.argument("dbias", *dbias);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

}  // namespace twinops
