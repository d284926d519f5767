"""PyTorch's functions, computed by twinops: where PyTorch has a function, its names, defaults and
refusals are PyTorch's.

"Floating" below means float16, bfloat16, float32 or float64; tensors may have any shape and strides.
Results have the same bits on every CPU and GPU; docs/numerics.md has the arithmetic, and the page of
each operator in docs/operators/ its formula and refusals. What the library refuses is a RuntimeError
with its message; nothing has been written then. What a function takes beyond PyTorch's arguments is by
keyword only.

The softmax family takes softmax of v = scale * x + mask + bias:

mask: broadcast to the shape of x. bool or uint8: an element that is not 0 is masked out
    (scaled_dot_product_attention means the opposite). Floating: added; -infinity masks out; another
    type than x's or float32 is converted to x's.
lengths: int32 or int64, in the shape of x's first dimensions, one or more of those before dim: how
    many elements of a row count, from its first on.
bias: floating, broadcast to the shape of x by itself: numbers that are added beside a mask or lengths, as
    a floating mask is.
scale: a finite number, rounded to float32 unless x is float64.
causal: row i sees columns 0 to i + causal_offset only; for rows along the last dimension.
masked_rows: what a row gives that is masked out throughout: "nan", as PyTorch, or "zeros".

The dropout family:

generator: a torch.Generator to draw the seed from; None: PyTorch's default CPU generator.
mask: what the backward pass reads. None: the mask is not stored but drawn again; "bits": it is stored,
    an eighth of a byte an element; "bytes": a byte an element; "auto", the default: "bits" on a CPU, None on a
    GPU.
global_shape, start: tuples, where the tensor is a part of a larger one: the shape of the whole, and the
    index of the tensor's first element in it. It drops what the whole would drop there.
"""

import torch

from twinops.torch import _autograd, sharding
from twinops.torch._dropout import (
    bias_dropout_residual,
    bitmask_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    softmax_dropout,
)
from twinops.torch._softmax import log_softmax, softmax, softmin

ops = torch.ops.twinops

__all__ = [
    "bias_dropout_residual",
    "bitmask_dropout",
    "check_finite_and_unscale_",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "log_softmax",
    "philox_words",
    "random_projection",
    "softmax",
    "softmax_dropout",
    "softmin",
    "uniform",
    "update_loss_scaling_",
]


# ---- random numbers ------------------------------------------------------------------------------

def _fill(op, size, seed, offset, device, attributes):
    like = torch.empty(size, dtype=torch.uint8, device=device)
    return getattr(ops, op)(like, seed=signed(seed), offset=signed(offset), **attributes)


def signed(word):
    """A 64-bit word as the int64 that PyTorch's operators take."""
    word %= 1 << 64
    return word - (1 << 64) if word >= 1 << 63 else word


def philox_words(size, seed, offset=0, *, device=None, **attributes):
    """The random 32-bit words that the elements of a tensor draw (Philox4x32-10 as cuRAND uses it).

    size: the shape of the tensor that is returned: int32, with the bits of the words.
    seed: an integer of 64 bits.
    offset: words of the sequence to skip; a multiple of 4.
    device: where; None: PyTorch's default.
    attributes: the operator's others by name, as subsequence, layout, period, global_shape, start,
        shared_axes. docs/operators/philox_words.md
    """
    return _fill("philox_words", size, seed, offset, device, attributes)


def uniform(size, seed, offset=0, *, device=None, **attributes):
    """Uniform random numbers, float32 of the given size: in (0, 1] with the bits of curand_uniform, or
    with layout="triton" in [0, 1) with those of tl.rand. The arguments are philox_words'.
    docs/operators/uniform.md"""
    return _fill("uniform", size, seed, offset, device, attributes)


def random_projection(input, k, seed, s=3.0, **attributes):
    """sqrt(s / k) * input @ R: the rows of input in k dimensions, distances kept in the mean. R,
    [columns, k] of +1, 0 and -1, is drawn from the seed as it is used; the same seed is the same matrix.

    input: floating, [..., columns].
    k: columns of the result, 1 or more.
    seed: an integer of 64 bits.
    s: one entry of R in s is not 0; 1 to 2^31.
    attributes: subsequence, offset, element_offset, as of philox_words.

    Returns [..., k] of the type of input. docs/operators/random_projection.md
    """
    attributes = {"k": k, "seed": signed(seed), "s": s, **attributes}
    if sharding.is_sharded(input) and input.dim() > 0:
        return sharding.random_projection(input, attributes)
    return _autograd.call("random_projection", input, **attributes)


# ---- loss scaling --------------------------------------------------------------------------------

@torch.no_grad()
def check_finite_and_unscale_(tensors, scale, found_inf, check="output", reset=False):
    """Multiplies every tensor of a list with 1 / scale, in place, and looks for values that are not
    finite.

    tensors: floating, any number, shapes and mix of types, on one device.
    scale: float32 or float64, one element, on that device.
    found_inf: bool, uint8 or float32, one element, there too; becomes 1 if a value is not finite.
    check: which values must be finite: "output", those that are stored, or "input", those that are
        read, as PyTorch's GradScaler tests.
    reset: True: found_inf becomes 0 if all are; False: it is left alone then.
    docs/operators/check_finite_and_unscale.md
    """
    ops.check_finite_and_unscale_(list(tensors), scale, found_inf, check=check, reset=reset)


@torch.no_grad()
def update_loss_scaling_(tensors, found_inf, scale, good_steps, bad_steps, **attributes):
    """Takes one step of dynamic loss scaling, in place.

    tensors: floating; they become 0 if found_inf is not 0.
    found_inf: bool, uint8 or float32, one element.
    scale: float32 or float64, one element.
    good_steps, bad_steps: int32, one element: steps in a row, finite and not finite.
    attributes: incr_every_n_steps (1000), decr_every_n_nan_or_inf (2), incr_ratio (2.0), decr_ratio
        (0.5), stop_update (False), min_scale (1.0): docs/operators/update_loss_scaling.md
    """
    ops.update_loss_scaling_(list(tensors), found_inf, scale, good_steps, bad_steps, **attributes)
