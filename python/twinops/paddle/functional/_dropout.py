"""dropout alone, with bias and residual, and behind softmax. The arguments are described in __init__.py."""

import math
import numbers

import paddle
from paddle.jit.marker import unified

from twinops._outputs import bias_shape
from twinops.paddle._plugin import check_tensor, run
from twinops.paddle.functional._softmax import masked, written_into
from twinops.paddle.generator import default_generator


_MASK_TYPES = {"bits": "uint32", "bytes": "bool", None: ""}
_MODES = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}


class LeftToPaddle(TypeError):
    """What Paddle's function takes and ours does not: patch() gives it to Paddle's."""


def _number(p):
    """p as a number; a tensor of one element is read."""
    if isinstance(p, paddle.Tensor):
        p = p.item()
    if isinstance(p, paddle.pir.Value):
        raise LeftToPaddle("p argument should be a number in a program; got a tensor")
    if not isinstance(p, numbers.Real) or isinstance(p, bool):
        raise TypeError(f"p argument should be a number; got {type(p).__name__}")
    return p


def _probability(p):
    p = p if type(p) is float else _number(p)
    if not 0 <= p <= 1:
        raise ValueError(f"p argument should between 0 and 1; got {p}")
    return p


def _shared_axes(x, axis):
    """Paddle names the axes along which elements are dropped apart; twinops those along which they
    are not."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    if not axes or min(axes) < 0 or max(axes) >= x.ndim or len(axes) > x.ndim:
        raise ValueError(
            "axis value should be greater than or equal to 0 and less than dimensions of "
            f"x:{x.ndim}, but get axis value:{axis}"
        )
    return [i for i in range(x.ndim) if i not in axes]


def _words(x, shared):
    """Words that a call draws: a multiple of 4. Unknown sizes are a program's, which counts anew."""
    shape = [n for i, n in enumerate(x.shape) if i not in shared] if shared else x.shape
    return (max(math.prod(shape), 0) + 3) // 4 * 4


def _random_arguments(x, p, axis, training, mode, generator):
    """What every operator of the family is given to drop elements of x: (inputs, attributes)."""
    p = _probability(p)
    if mode not in _MODES:
        raise ValueError(
            f"mode argument should be 'downscale_in_infer' or 'upscale_in_train'; got {mode!r}"
        )
    attributes, shared = {"p": p, "mode": _MODES[mode], "training": training}, ()
    if axis is not None:
        shared = _shared_axes(x, axis)
        attributes["shared_axes"] = ",".join(map(str, shared))
    if not training or p == 0 or p == 1:
        return {}, attributes
    inputs, random = (generator or default_generator()).random_arguments(_words(x, shared))
    attributes.update(random)
    return inputs, attributes


def _drop(op, inputs, p, axis, training, mode, generator, mask):
    """[y, mask or a tensor without elements]."""
    if mask not in _MASK_TYPES:
        raise ValueError(f"mask argument should be 'bits', 'bytes' or None; got {mask!r}")
    check_tensor(op, "x", inputs["x"])
    more, attributes = _random_arguments(inputs["x"], p, axis, training, mode, generator)
    inputs.update(more)
    attributes["mask_type"] = _MASK_TYPES[mask]
    return run(op, inputs, attributes)


@unified
def dropout(
    x,
    p=0.5,
    axis=None,
    training=True,
    inplace=False,
    mode="upscale_in_train",
    name=None,
    *,
    generator=None,
    mask="bits",
):
    """paddle.nn.functional.dropout: drops elements with probability p and scales those that are kept.

    x: floating.
    p: 0 to 1, else ValueError; no number, TypeError. Outside programs it may be a tensor of one element.
    axis: Paddle's: elements are dropped apart along these axes and together along the others; None:
        every element by itself.
    training: outside training nothing is dropped.
    inplace: in dygraph the result is written into x, too, which is returned.
    mode: "upscale_in_train": kept elements are multiplied with 1 / (1 - p) in training;
        "downscale_in_infer": all elements are multiplied with 1 - p outside training.
    generator, mask: see the top of this module.

    Returns a tensor of the shape and type of x. Whether an element is dropped is a function of seed,
    offset and the element's index alone: docs/same-mask-everywhere.md. docs/operators/dropout.md
    """
    if isinstance(inplace, str):  # before Paddle 3.3 `mode` stood in this place
        inplace, mode = False, inplace
    y = _drop("dropout", {"x": x}, p, axis, training, mode, generator, mask)[0]
    return written_into(x, y) if inplace else y


def _channel_axes(x, data_format, rank, formats):
    check_tensor(f"dropout{rank - 2}d", "x", x)
    if x.ndim != rank:
        raise ValueError(f"dimensions of x should be {rank}, but received {x.ndim} != {rank}")
    if data_format not in formats:
        raise ValueError(
            f"Attr(data_format) should be {' or '.join(map(repr, formats))}; got {data_format!r}"
        )
    return [0, 1] if data_format.startswith("NC") else [0, rank - 1]


@unified
def dropout1d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """paddle.nn.functional.dropout1d: whole channels are dropped.

    input: floating, of three dimensions (batch, channel, length) or two (channel, length), else
        RuntimeError.
    p, training, generator: dropout's. inplace: ignored, as Paddle's.
    """
    check_tensor("dropout1d", "input", input)
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d expects 2D or 3D input, got {input.ndim}D")
    axes = [0, 1] if input.ndim == 3 else [0]
    return dropout(input, p, axes, training, generator=generator, mask=None)


@unified
def dropout2d(x, p=0.5, training=True, data_format="NCHW", name=None, *, generator=None):
    """paddle.nn.functional.dropout2d: drops whole channels of x, of four dimensions as data_format says
    ("NCHW" or "NHWC"). The mask is drawn again for the gradient."""
    axes = _channel_axes(x, data_format, 4, ("NCHW", "NHWC"))
    return dropout(x, p, axes, training, generator=generator, mask=None)


@unified
def dropout3d(x, p=0.5, training=True, data_format="NCDHW", name=None, *, generator=None):
    """paddle.nn.functional.dropout3d: drops whole channels of x, of five dimensions as data_format says
    ("NCDHW" or "NDHWC"). The mask is drawn again for the gradient."""
    axes = _channel_axes(x, data_format, 5, ("NCDHW", "NDHWC"))
    return dropout(x, p, axes, training, generator=generator, mask=None)


@unified
def bitmask_dropout(x, p=0.5, axis=None, training=True, mode="upscale_in_train", *, generator=None):
    """Dropout that returns its mask too, as ONNX Runtime's BitmaskDropout: (y, mask). Arguments and y
    are dropout's. mask: int32 [ceil(n / 32)]; element e is bit e % 32 of word e // 32, counted from
    the lowest bit, 1 = kept; bits beyond the last element are 0."""
    y, mask = _drop("dropout", {"x": x}, p, axis, training, mode, generator, "bits")
    mask.stop_gradient = True
    return y, mask


@unified
def fused_dropout_add(
    x, y, p=0.5, training=True, mode="upscale_in_train", name=None, *, generator=None, mask="bits"
):
    """paddle.incubate.nn.functional.fused_dropout_add: dropout(x) + y in one pass; y has the shape and
    type of x, else the sum is Paddle's: it broadcasts and chooses the type. The other arguments are
    dropout's. Paddle's runs on a GPU only."""
    check_tensor("fused_dropout_add", "x", x)
    check_tensor("fused_dropout_add", "y", y)
    if list(x.shape) != list(y.shape) or x.dtype != y.dtype:
        return dropout(x, p, None, training, mode=mode, generator=generator, mask=mask) + y
    return bias_dropout_residual(x, None, y, p, training, mode, generator=generator, mask=mask)


@unified
def bias_dropout_residual(
    x,
    bias=None,
    residual=None,
    p=0.5,
    training=True,
    mode="upscale_in_train",
    *,
    generator=None,
    mask="bits",
):
    """dropout(x + bias) + residual in one pass; each sum is rounded once.

    x: floating.
    bias: None, or a tensor of the type of x and of a shape that broadcasts to x's.
    residual: None, or a tensor of the shape and type of x.
    p, training, mode, generator, mask: dropout's.

    Returns a tensor of the shape and type of x. docs/operators/bias_dropout_residual.md
    """
    for name, tensor in (("x", x), ("bias", bias), ("residual", residual)):
        if name == "x" or tensor is not None:
            check_tensor("bias_dropout_residual", name, tensor)
    if bias is not None and list(bias.shape) not in (list(x.shape), list(x.shape[-1:])):
        shape = bias_shape(bias.shape, x.shape)
        bias = bias.reshape(shape) if len(shape) == 1 else bias.expand(shape)
    inputs = {"x": x, "bias": bias, "residual": residual}
    return _drop("bias_dropout_residual", inputs, p, None, training, mode, generator, mask)[0]


@unified
def softmax_dropout(
    x,
    p=0.5,
    axis=-1,
    training=True,
    mode="upscale_in_train",
    *,
    generator=None,
    mask=None,
    lengths=None,
    bias=None,
    **row_masks,
):
    """dropout(softmax(x)), with the bits of the two one after the other: what attention does with its
    scores.

    x, axis, mask, lengths, bias: softmax's, and by keyword also scale, causal, causal_offset, masked_rows.
    p, training, mode, generator: dropout's.

    Returns a tensor of the shape and type of x. docs/operators/softmax_dropout.md
    """
    check_tensor("softmax_dropout", "x", x)
    inputs = masked("softmax_dropout", x, mask, lengths, bias)
    wants_gradient = paddle.is_grad_enabled() and any(
        t is not None and not t.stop_gradient for t in (x, mask, bias)
    )
    kept = {"probabilities_type": "same" if wants_gradient else "", "dropout_mask_type": "uint32"}
    more, attributes = _random_arguments(x, p, None, training, mode, generator)
    attributes.update(row_masks, axis=axis, **kept)
    return run("softmax_dropout", {**inputs, **more}, attributes)[0]
