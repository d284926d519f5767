"""Paddle's functions, computed by twinops: where Paddle has a function, its names, defaults and
refusals are Paddle's.

"Floating" below means float16, bfloat16, float32 or float64; tensors may have any shape.
Results have the same bits on every CPU and GPU; docs/numerics.md has the arithmetic, and the page of
each operator in docs/operators/ its formula and refusals. What the library refuses raises the error
that Paddle makes of it, with the library's message; nothing has been written then.

What a function takes beyond Paddle's arguments is by keyword only. Two of these arguments come again
and again:

generator: a twinops.paddle.Generator to draw from; None: the default one, which follows paddle.seed.
mask (of a dropout): what the backward pass reads. "bits": the mask is stored, an eighth of a byte an
    element; "bytes": a byte an element; None: it is not stored but drawn again.
"""

from twinops.paddle.functional._dropout import (
    LeftToPaddle,
    bias_dropout_residual,
    bitmask_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    fused_dropout_add,
    softmax_dropout,
)
from twinops.paddle.functional._loss_scaling import check_finite_and_unscale, update_loss_scaling
from twinops.paddle.functional._random import philox_words, random_projection, uniform
from twinops.paddle.functional._softmax import (
    fused_softmax_mask,
    fused_softmax_mask_upper_triangle,
    log_softmax,
    softmax,
    softmax_,
)

__all__ = [
    "LeftToPaddle",
    "bias_dropout_residual",
    "bitmask_dropout",
    "check_finite_and_unscale",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "fused_dropout_add",
    "fused_softmax_mask",
    "fused_softmax_mask_upper_triangle",
    "log_softmax",
    "philox_words",
    "random_projection",
    "softmax",
    "softmax_",
    "softmax_dropout",
    "uniform",
    "update_loss_scaling",
]
