// The dropout family. twinops.hpp includes this file. The arithmetic: docs/numerics.md, "Dropout".
#pragma once

#include "twinops/random.hpp"

namespace twinops {

struct DropoutOptions {
  // The probability of dropping an element: 0 to 1, rounded to float32. 0 and 1 draw no words.
  double p = 0.5;
  // What makes up for 1 - p, as in Paddle's dropout. "upscale_in_train": kept elements are
  // multiplied with 1 / (1 - p) in training, as PyTorch does. "downgrade_in_infer": all elements
  // are multiplied with 1 - p outside training.
  const char* mode = "upscale_in_train";
  // false: nothing is dropped and no word is drawn.
  bool training = true;
  // Which words decide.
  RandomOptions random = {};

  Call& add_to(Call& call) const {
    return random.add_to(
        call.attribute("p", p).attribute("mode", mode).attribute("training", training));
  }
};

// y = x * scale where an element is kept, +0 where it is dropped (even if x is NaN there). Element
// e is kept if curand_uniform(its word) < 1 - p, in float32; in layout triton, if Triton's uniform
// number is above p.
//   x     floating, any shape
//   y     shape and type of x; may be x itself
//   mask  output, may be left out: what was kept, 1 = kept, in row-major order, without gaps.
//         As uint32 of shape [ceil(n / 32)]: element e is bit e mod 32 of word e / 32, counted from
//         the lowest bit, and bits beyond the last element are 0. As bool or uint8 in the shape of
//         x: one byte an element.
// Refuses a p outside [0, 1] and what philox_words refuses. docs/operators/dropout.md
inline Report dropout(const Tensor& x, const Tensor& y, const std::optional<Tensor>& mask = {},
                      const DropoutOptions& options = {}, const Execution& execution = {}) {
  Call call("dropout");
  call.argument("x", x).argument("y", y);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// dx = dy * scale where dropout kept the element, else +0. Give the options of the forward call.
//   dy    floating, any shape
//   dx    shape and type of dy; may be dy itself
//   mask  input, may be left out: what dropout stored, in any of its types; a byte that is not 0
//         means kept. Without it the same words are drawn again.
// docs/operators/dropout_grad.md
inline Report dropout_grad(const Tensor& dy, const Tensor& dx,
                           const std::optional<Tensor>& mask = {},
                           const DropoutOptions& options = {}, const Execution& execution = {}) {
  Call call("dropout_grad");
  call.argument("dy", dy).argument("dx", dx);
  if (mask) call.argument("mask", *mask);
  return options.add_to(call).run(execution);
}

// What bias_dropout_residual adds; each may be left out. Both have the type of x.
struct BiasAndResidual {
  std::optional<Tensor> bias = {};      // [last dimension of x], or the shape of x
  std::optional<Tensor> residual = {};  // the shape of x
};

// y = dropout(x + bias) + residual in one pass; each sum is rounded once in the compute type, and
// the result once to the type of y. x, y, mask and options are as in dropout; y may be x or the
// residual itself. docs/operators/bias_dropout_residual.md
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

// The gradients of bias_dropout_residual: dx as dropout_grad gives it, and dbias, the sum of the
// stored dx over all axes but the last, in the order of docs/numerics.md, "Sums". (The gradient of
// the residual is dy, that of a bias in the shape of x is dx.)
//   dy     floating, any shape; at least one dimension if dbias is given
//   dx     shape and type of dy; may be dy itself; without gaps if dbias is given
//   dbias  output, may be left out: [last dimension of dy], type of dy, without gaps
//   mask   as in dropout_grad
// docs/operators/bias_dropout_residual_grad.md
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
