// The softmax family. twinops.hpp includes this file. The arithmetic, in which a row's bits depend
// on that row alone: docs/numerics.md, section 5.
#pragma once

#include "twinops/dropout.hpp"

namespace twinops {

// What softmax is taken of: along `axis`, v = scale * x + mask, and -infinity where an element is
// masked out, whatever x is there. An element counts only if nothing masks it out.
struct SoftmaxOptions {
  int axis = -1;  // the axis that rows lie along, -rank to rank - 1
  // What a row gives that is masked out throughout, or holds nothing but -infinity: "nan", as
  // PyTorch and Paddle, or "zeros": probabilities of 0.
  const char* masked_rows = "nan";
  // What x is multiplied with; finite; rounded to float32 unless x is float64.
  double scale = 1;
  // Any shape that broadcasts to that of x. bool or uint8: an element that is not 0 is masked out,
  // as in PyTorch's masked_fill (its scaled_dot_product_attention means the opposite). Numbers, of
  // the type of x, or float32 for a 16-bit x: added to scale * x, rounded once; -infinity masks
  // out.
  std::optional<Tensor> mask = {};
  // int32 or int64, in the shape of x's first dimensions, one or more of those before the axis,
  // each as in x or 1: how many elements of a row count, from its first on. Read by the kernel:
  // below 0 counts as 0, more than the row has as the whole row.
  std::optional<Tensor> lengths = {};
  // Masks out element j of row i (i: the index along the axis before the last) where
  // j > i + causal_offset. Needs rows along the last axis and at least two dimensions; an offset
  // other than 0 needs causal. columns - rows as the offset lets the last row see everything.
  bool causal = false;
  std::int64_t causal_offset = 0;
  // Numbers that are added beside a mask or lengths, broadcast to the shape of x by themselves: of
  // the type of x, or float32 for a 16-bit x. Beside a mask of numbers the two are added first,
  // rounded once. -infinity masks out.
  std::optional<Tensor> bias = {};

  Call& add_to(Call& call) const {
    if (mask) call.argument("mask", *mask);
    if (lengths) call.argument("lengths", *lengths);
    if (bias) call.argument("bias", *bias);
    return call.attribute("axis", axis)
        .attribute("masked_rows", masked_rows)
        .attribute("scale", scale)
        .attribute("causal", causal)
        .attribute("causal_offset", causal_offset);
  }
};

// out = exp(v) / sum(exp(v)) along the axis.
//   x    floating, one dimension or more; rows of any length
//   out  shape of x; type of x, or float32 for a 16-bit x, or float16 or bfloat16 for a float32 x;
//        may be x itself
// Refuses an axis that x does not have, a mask or lengths of another shape or type, a scale that is
// not finite. docs/operators/softmax.md
inline Report softmax(const Tensor& x, const Tensor& out, const SoftmaxOptions& options = {},
                      const Execution& execution = {}) {
  Call call("softmax");
  return options.add_to(call.argument("x", x).argument("out", out)).run(execution);
}

// out = v - log(sum(exp(v))) along the axis; tensors, options and refusals are softmax's.
// docs/operators/log_softmax.md
inline Report log_softmax(const Tensor& x, const Tensor& out, const SoftmaxOptions& options = {},
                          const Execution& execution = {}) {
  Call call("log_softmax");
  return options.add_to(call.argument("x", x).argument("out", out)).run(execution);
}

// The forward call's options are the gradient's: dx is 0 where an element is masked out, and y and
// dy are not read there, so that a NaN in them does no harm. Without a mask what was masked out
// still shows in softmax's y, which is 0 there; log_softmax's gradient is 0 there only with it.
// Numbers as a mask are of the type of dx, or float32 for a 16-bit dx.
using SoftmaxGradOptions = SoftmaxOptions;

// dx = scale * y * (dy - sum(y * dy)) along the axis, each operation rounded.
//   y   floating: what softmax gave
//   dy  shape and type of y: the gradient of y
//   dx  shape of y; type of y, or float32 for a 16-bit y, or float16 or bfloat16 for a float32 y;
//       may be dy or y itself
//   dmask  output, of the type and shape of a mask of numbers, without gaps: its gradient, which is
//          that of scale * x, summed over the axes that the mask was broadcast over, in the order
//          of every sum, and rounded once
//   dbias  the same for a bias
// Refuses a dmask without a mask of numbers, a dbias without a bias. docs/operators/softmax_grad.md
inline Report softmax_grad(const Tensor& y, const Tensor& dy, const Tensor& dx,
                           const SoftmaxGradOptions& options = {},
                           const std::optional<Tensor>& dmask = {},
                           const std::optional<Tensor>& dbias = {},
                           const Execution& execution = {}) {
  Call call("softmax_grad");
  call.argument("y", y).argument("dy", dy).argument("dx", dx);
  if (dmask) call.argument("dmask", *dmask);
  if (dbias) call.argument("dbias", *dbias);
  return options.add_to(call).run(execution);
}

// dx = scale * (dy - exp(y) * sum(dy)) along the axis; y is what log_softmax gave. Tensors are
// softmax_grad's. docs/operators/log_softmax_grad.md
inline Report log_softmax_grad(const Tensor& y, const Tensor& dy, const Tensor& dx,
                               const SoftmaxGradOptions& options = {},
                               const std::optional<Tensor>& dmask = {},
                               const std::optional<Tensor>& dbias = {},
                               const Execution& execution = {}) {
  Call call("log_softmax_grad");
  call.argument("y", y).argument("dy", dy).argument("dx", dx);
  if (dmask) call.argument("dmask", *dmask);
  if (dbias) call.argument("dbias", *dbias);
  return options.add_to(call).run(execution);
}

// What softmax_dropout stores for its gradient; each may be left out.
struct KeptForGradient {
  std::optional<Tensor> probabilities = {};  // softmax before dropout: shape and type of y
  std::optional<Tensor> dropout_mask = {};   // what was kept, as dropout's mask
};

// y = dropout(softmax(v)): attention's probabilities, in one pass where that can be (the operator's
// page says where). The bits are those of softmax
// and dropout one after the other: probabilities are rounded to the type of y before they are
// scaled, whether they are stored or not.
//   x     floating, one dimension or more
//   y     as softmax's out; may be x itself
//   kept  outputs; without dropout_mask the gradient draws the mask again
// Refuses what softmax and dropout refuse. docs/operators/softmax_dropout.md
inline Report softmax_dropout(const Tensor& x, const Tensor& y, const KeptForGradient& kept = {},
                              const SoftmaxOptions& softmax = {},
                              const DropoutOptions& dropout = {}, const Execution& execution = {}) {
  Call call("softmax_dropout");
  call.argument("x", x).argument("y", y);
  if (kept.probabilities) call.argument("probabilities", *kept.probabilities);
  if (kept.dropout_mask) call.argument("dropout_mask", *kept.dropout_mask);
  return dropout.add_to(softmax.add_to(call)).run(execution);
}

// dx of softmax_dropout: dropout_grad and softmax_grad one after the other.
//   probabilities  floating: what softmax_dropout stored
//   dy             shape and type of probabilities: the gradient of y
//   dx             shape of dy; type of dy, or float32 for a 16-bit dy, or float16 or bfloat16 for
//                  a float32 dy; may be dy itself
//   dropout_mask   what softmax_dropout stored, or nothing: then `dropout` must be the options of
//                  the forward call, whose words are drawn again
//   dmask, dbias   softmax_grad's
// docs/operators/softmax_dropout_grad.md
inline Report softmax_dropout_grad(const Tensor& probabilities, const Tensor& dy, const Tensor& dx,
                                   const std::optional<Tensor>& dropout_mask = {},
                                   const SoftmaxGradOptions& softmax = {},
                                   const DropoutOptions& dropout = {},
                                   const std::optional<Tensor>& dmask = {},
                                   const std::optional<Tensor>& dbias = {},
                                   const Execution& execution = {}) {
  Call call("softmax_dropout_grad");
  if (dmask) call.argument("dmask", *dmask);
  if (dbias) call.argument("dbias", *dbias);
  call.argument("probabilities", probabilities).argument("dy", dy).argument("dx", dx);
  if (dropout_mask) call.argument("dropout_mask", *dropout_mask);
  return dropout.add_to(softmax.add_to(call)).run(execution);
}

}  // namespace twinops
