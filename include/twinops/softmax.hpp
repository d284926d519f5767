// The softmax family. twinops.hpp includes it.
#pragma once

#include "twinops/dropout.hpp"

namespace twinops {

// out = exp(v) / sum(exp(v)) along an axis with v = scale * x + mask, and the logarithm of that.
// docs/operators/softmax.md, docs/operators/log_softmax.md
struct SoftmaxOptions {
  int axis = -1;
  const char* masked_rows = "nan";  // or "zeros": what a row that is masked throughout gives
  double scale = 1;
  std::optional<Tensor> mask = {};     // numbers that are added, or bool: true means masked out
  std::optional<Tensor> lengths = {};  // how many elements of a row count
  bool causal = false;                 // element j of row i is masked out where
  std::int64_t causal_offset = 0;      // j > i + causal_offset

  Call& add_to(Call& call) const {
    if (mask) call.argument("mask", *mask);
    if (lengths) call.argument("lengths", *lengths);
    return call.attribute("axis", axis)
        .attribute("masked_rows", masked_rows)
        .attribute("scale", scale)
        .attribute("causal", causal)
        .attribute("causal_offset", causal_offset);
  }
};
inline Report softmax(const Tensor& x, const Tensor& out, const SoftmaxOptions& options = {},
                      const Execution& execution = {}) {
  Call call("softmax");
  return options.add_to(call.argument("x", x).argument("out", out)).run(execution);
}
inline Report log_softmax(const Tensor& x, const Tensor& out, const SoftmaxOptions& options = {},
                          const Execution& execution = {}) {
  Call call("log_softmax");
  return options.add_to(call.argument("x", x).argument("out", out)).run(execution);
}

// dx from the y that the forward pass gave and the gradient dy. Of the forward pass's options it
// needs axis and scale alone: what was masked out has y = 0. docs/operators/softmax_grad.md,
// docs/operators/log_softmax_grad.md
struct SoftmaxGradOptions {
  int axis = -1;
  double scale = 1;
};
inline Report softmax_grad(const Tensor& y, const Tensor& dy, const Tensor& dx,
                           const SoftmaxGradOptions& options = {},
                           const Execution& execution = {}) {
  return Call("softmax_grad")
      .argument("y", y)
      .argument("dy", dy)
      .argument("dx", dx)
      .attribute("axis", options.axis)
      .attribute("scale", options.scale)
      .run(execution);
}
inline Report log_softmax_grad(const Tensor& y, const Tensor& dy, const Tensor& dx,
                               const SoftmaxGradOptions& options = {},
                               const Execution& execution = {}) {
  return Call("log_softmax_grad")
      .argument("y", y)
      .argument("dy", dy)
      .argument("dx", dx)
      .attribute("axis", options.axis)
      .attribute("scale", options.scale)
      .run(execution);
}

// y = dropout(softmax(x)). What is given of `kept` is written: the probabilities before dropout,
// which the backward pass needs, and dropout's mask, without which it draws again.
// docs/operators/softmax_dropout.md, docs/operators/softmax_dropout_grad.md
struct KeptForGradient {
  std::optional<Tensor> probabilities = {}, dropout_mask = {};
};
inline Report softmax_dropout(const Tensor& x, const Tensor& y, const KeptForGradient& kept = {},
                              const SoftmaxOptions& softmax = {},
                              const DropoutOptions& dropout = {}, const Execution& execution = {}) {
  Call call("softmax_dropout");
  call.argument("x", x).argument("y", y);
  if (kept.probabilities) call.argument("probabilities", *kept.probabilities);
  if (kept.dropout_mask) call.argument("dropout_mask", *kept.dropout_mask);
  return dropout.add_to(softmax.add_to(call)).run(execution);
}
inline Report softmax_dropout_grad(const Tensor& probabilities, const Tensor& dy, const Tensor& dx,
                                   const std::optional<Tensor>& dropout_mask = {},
                                   const SoftmaxGradOptions& softmax = {},
                                   const DropoutOptions& dropout = {},
                                   const Execution& execution = {}) {
  Call call("softmax_dropout_grad");
  call.argument("probabilities", probabilities).argument("dy", dy).argument("dx", dx);
  if (dropout_mask) call.argument("dropout_mask", *dropout_mask);
  call.attribute("axis", softmax.axis).attribute("scale", softmax.scale);
  return dropout.add_to(call).run(execution);
}

}  // namespace twinops
