"""softmax, log_softmax and their masked forms. The arguments are described in __init__.py."""

import paddle
from paddle.jit.marker import unified

from twinops.paddle._plugin import check_tensor, run


def _mask_for(op, x, mask, name):
    """A mask or a bias that twinops takes with x: another floating type is converted."""
    check_tensor(op, name, mask)
    wide = x.dtype in (paddle.float16, paddle.bfloat16) and mask.dtype == paddle.float32
    kept = wide or mask.dtype in (x.dtype, paddle.bool, paddle.uint8)
    return mask if kept else mask.astype(x.dtype)


def masked(op, x, mask, lengths, bias):
    """The inputs of an operator of the softmax family."""
    inputs = {"x": x}
    if lengths is not None:
        inputs["lengths"] = lengths
    if mask is not None:
        inputs["mask"] = _mask_for(op, x, mask, "mask")
    if bias is not None:
        inputs["bias"] = _mask_for(op, x, bias, "bias")
    return inputs


def _softmax(op, x, dtype, mask, lengths, bias, attributes):
    check_tensor(op, "x", x)
    if dtype is not None:
        x = paddle.cast(x, dtype)
    if not x.shape:  # Paddle takes a tensor without dimensions as a row of one
        inputs = masked(op, paddle.reshape(x, [1]), mask, lengths, bias)
        return run(op, inputs, {**attributes, "axis": 0})[0].reshape([])
    return run(op, masked(op, x, mask, lengths, bias), attributes)[0]


@unified
def softmax(
    x,
    axis=-1,
    dtype=None,
    name=None,
    *,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """paddle.nn.functional.softmax: exp(v) / sum(exp(v)) along `axis`, of v = scale * x + mask.

    x, axis, dtype, name: Paddle's. x is floating; dtype: x is cast to it first; None: it is not.
    mask: broadcast to the shape of x. bool or uint8: an element that is not 0 is masked out. Numbers:
        added; -infinity masks out; another type than x's or float32 is converted to x's. It gets a
        gradient where it asks for one (stop_gradient=False).
    lengths: int32 or int64, in the shape of x's first dimensions, one or more of those before the
        axis: how many elements of a row count, from its first on.
    bias: numbers that are added beside a mask or lengths, broadcast to the shape of x by itself; converted
        and with a gradient as a mask of numbers. docs/operators/softmax.md#a-bias-beside-a-mask
    scale: a finite number, rounded to float32 unless x is float64.
    causal: row i sees columns 0 to i + causal_offset only; for axis -1 and two dimensions or more.
    masked_rows: what a row gives that is masked out throughout: "nan", as Paddle, or "zeros".

    Returns a tensor of the shape and type of x. docs/operators/softmax.md
    """
    attributes = {"axis": axis, "scale": scale, "masked_rows": masked_rows}
    attributes.update(causal=causal, causal_offset=causal_offset)
    return _softmax("softmax", x, dtype, mask, lengths, bias, attributes)


def written_into(x, y):
    """x, which becomes y: a new value, with y's history."""
    if not paddle.in_dynamic_mode():
        return y
    if paddle.is_grad_enabled() and x.is_leaf and not x.stop_gradient:
        raise ValueError(
            f"Leaf Var ({x.name}) that doesn't stop gradient can't use inplace strategy: y = f(x)"
        )
    return paddle.assign(y, x)


@unified
def softmax_(x, axis=-1, dtype=None, name=None):
    """paddle.nn.functional.softmax_: softmax whose result is written into x, too, which is returned. With
    `dtype` it is written into x converted."""
    y = softmax(x, axis, dtype)
    return y if dtype is not None else written_into(x, y)


@unified
def log_softmax(
    x,
    axis=-1,
    dtype=None,
    name=None,
    *,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """paddle.nn.functional.log_softmax: v - log(sum(exp(v))) along `axis`, of v = scale * x + mask.
    The arguments are softmax's. docs/operators/log_softmax.md"""
    attributes = {"axis": axis, "scale": scale, "masked_rows": masked_rows}
    attributes.update(causal=causal, causal_offset=causal_offset)
    return _softmax("log_softmax", x, dtype, mask, lengths, bias, attributes)


@unified
def fused_softmax_mask(x, mask, name=None):
    """paddle.incubate.softmax_mask_fuse: softmax(x + mask) along the last axis. Paddle's runs on a GPU
    only and for [batch, heads, rows, columns]; this one on every device and for every mask that
    broadcasts to the shape of x. Unlike Paddle's it gives a mask that asks for one its gradient."""
    return softmax(x, mask=mask)


@unified
def fused_softmax_mask_upper_triangle(x, name=None):
    """paddle.incubate.softmax_mask_fuse_upper_triangle: softmax along the last axis, where row i sees
    columns 0 to i only. Paddle's runs on a GPU only, this one on every device."""
    return softmax(x, causal=True)
