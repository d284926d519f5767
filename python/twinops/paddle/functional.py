"""Paddle's functions, computed by twinops: names, defaults and refusals are Paddle's.

What a function takes beyond Paddle's arguments is by keyword only: `generator` draws from another
random sequence than the default one; `mask` says what the backward pass of a dropout reads:
"bits" (an eighth of a byte an element), "bytes", or None: the mask is drawn again.
"""

import math
import numbers

import paddle
from paddle.jit.marker import unified

from twinops.paddle._plugin import run
from twinops.paddle.generator import default_generator

_MASK_TYPES = {"bits": "uint32", "bytes": "bool", None: ""}
_MODES = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}


# ---- softmax -------------------------------------------------------------------------------------


def _rows(op, x, axis, dtype, attributes):
    if dtype is not None:
        x = paddle.cast(x, dtype)
    if x.ndim == 0:  # Paddle takes a tensor without dimensions as a row of one
        return run(op, {"x": paddle.reshape(x, [1])}, attributes)[0].reshape([])
    return run(op, {"x": x}, {"axis": axis, **attributes})[0]


@unified
def softmax(x, axis=-1, dtype=None, name=None, *, masked_rows="nan"):
    """paddle.nn.functional.softmax. `masked_rows`: what a row of nothing but -infinity gives, "nan"
    (as Paddle) or "zeros"."""
    return _rows("softmax", x, axis, dtype, {"masked_rows": masked_rows})


@unified
def log_softmax(x, axis=-1, dtype=None, name=None, *, masked_rows="nan"):
    """paddle.nn.functional.log_softmax."""
    return _rows("log_softmax", x, axis, dtype, {"masked_rows": masked_rows})


# twinops' softmax takes the mask of neither of these two: Paddle's operators apply it, in float32 for
# 16-bit tensors, which Paddle cannot add on a CPU.
def _masked_softmax(x, masked):
    wide = x.astype("float32") if x.dtype in (paddle.float16, paddle.bfloat16) else x
    return softmax(masked(wide)).astype(x.dtype)


@unified
def fused_softmax_mask(x, mask, name=None):
    """paddle.incubate.softmax_mask_fuse: softmax(x + mask) along the last axis, on every device and
    for every shape that broadcasts. As Paddle's, it has no gradient with respect to the mask."""
    mask = mask.detach()
    return _masked_softmax(x, lambda wide: wide + mask.astype(wide.dtype))


@unified
def fused_softmax_mask_upper_triangle(x, name=None):
    """paddle.incubate.softmax_mask_fuse_upper_triangle: softmax along the last axis, where row i sees
    columns 0 to i."""
    seen = paddle.tril(paddle.ones([x.shape[-2], x.shape[-1]], "bool"))
    return _masked_softmax(
        x, lambda wide: paddle.where(seen, wide, paddle.full([1], -math.inf, wide.dtype))
    )


# ---- dropout -------------------------------------------------------------------------------------


def _check_dropout(p, mode, mask):
    if not isinstance(p, numbers.Real) or isinstance(p, bool):
        raise TypeError(f"p argument should be a number; got {type(p).__name__}")
    if not 0 <= p <= 1:
        raise ValueError(f"p argument should between 0 and 1; got {p}")
    if mode not in _MODES:
        raise ValueError(
            f"mode argument should be 'downscale_in_infer' or 'upscale_in_train'; got {mode!r}"
        )
    if mask not in _MASK_TYPES:
        raise ValueError(f"mask argument should be 'bits', 'bytes' or None; got {mask!r}")


def _shared_axes(x, axis):
    """Paddle names the axes along which elements are dropped apart; twinops those along which they
    are not."""
    if axis is None:
        return []
    axes = [axis] if isinstance(axis, int) else list(axis)
    if not axes or min(axes) < 0 or max(axes) >= x.ndim or len(axes) > x.ndim:
        raise ValueError(
            "axis value should be greater than or equal to 0 and less than dimensions of "
            f"x:{x.ndim}, but get axis value:{axis}"
        )
    return [i for i in range(x.ndim) if i not in axes]


def _words(x, shared):
    """Words that a call draws: a multiple of 4. Unknown sizes are a program's, which counts anew."""
    draws = math.prod(max(n, 0) for i, n in enumerate(x.shape) if i not in shared)
    return (draws + 3) // 4 * 4


def _drop(op, inputs, p, axis, training, mode, generator, mask):
    """[y, mask or a tensor without elements]."""
    _check_dropout(p, mode, mask)
    x = inputs["x"]
    shared = _shared_axes(x, axis)
    attributes = {
        "p": p,
        "mode": _MODES[mode],
        "training": training,
        "shared_axes": ",".join(map(str, shared)),
        "mask_type": _MASK_TYPES[mask],
    }
    if training and 0 < p < 1:
        random = (generator or default_generator()).random_arguments(_words(x, shared))
        inputs = {**inputs, **random[0]}
        attributes.update(random[1])
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
    """paddle.nn.functional.dropout."""
    if isinstance(inplace, str):  # before Paddle 3.3 `mode` stood in this place
        inplace, mode = False, inplace
    if inplace:
        raise NotImplementedError("twinops' dropout has no inplace: use y = dropout(x)")
    return _drop("dropout", {"x": x}, p, axis, training, mode, generator, mask)[0]


def _channel_axes(x, data_format, rank, formats):
    if x.ndim != rank:
        raise ValueError(f"dimensions of x should be {rank}, but received {x.ndim} != {rank}")
    if data_format not in formats:
        raise ValueError(
            f"Attr(data_format) should be {' or '.join(map(repr, formats))}; got {data_format!r}"
        )
    return [0, 1] if data_format.startswith("NC") else [0, rank - 1]


@unified
def dropout2d(x, p=0.5, training=True, data_format="NCHW", name=None, *, generator=None):
    """paddle.nn.functional.dropout2d: whole channels are dropped."""
    axes = _channel_axes(x, data_format, 4, ("NCHW", "NHWC"))
    return dropout(x, p, axes, training, generator=generator, mask=None)


@unified
def dropout3d(x, p=0.5, training=True, data_format="NCDHW", name=None, *, generator=None):
    """paddle.nn.functional.dropout3d: whole channels are dropped."""
    axes = _channel_axes(x, data_format, 5, ("NCDHW", "NDHWC"))
    return dropout(x, p, axes, training, generator=generator, mask=None)


@unified
def bitmask_dropout(x, p=0.5, axis=None, training=True, mode="upscale_in_train", *, generator=None):
    """Dropout that gives its mask too, as ONNX Runtime's BitmaskDropout: (y, mask). The mask is int32
    of ceil(n / 32) elements: element e is bit e % 32 of word e // 32, 1 = kept."""
    y, mask = _drop("dropout", {"x": x}, p, axis, training, mode, generator, "bits")
    mask.stop_gradient = True
    return y, mask


@unified
def fused_dropout_add(
    x, y, p=0.5, training=True, mode="upscale_in_train", name=None, *, generator=None, mask="bits"
):
    """paddle.incubate.nn.functional.fused_dropout_add: dropout(x) + y in one pass."""
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
    """dropout(x + bias) + residual in one pass; bias of the last dimension's shape or of x's."""
    inputs = {"x": x, "bias": bias, "residual": residual}
    return _drop("bias_dropout_residual", inputs, p, None, training, mode, generator, mask)[0]


# ---- random numbers ------------------------------------------------------------------------------


def _fill(op, shape, seed, offset, attributes):
    inputs = {"like": paddle.empty(shape, "uint8")}
    if seed is None:
        more, random = default_generator().random_arguments((math.prod(shape) + 3) // 4 * 4)
        return run(op, {**inputs, **more}, {**random, **attributes})[0]
    signed = seed - (1 << 64) if seed >= 1 << 63 else seed
    return run(op, inputs, {"seed": signed, "offset": offset, **attributes})[0]


@unified
def philox_words(shape, seed=None, offset=0, **attributes):
    """Random 32-bit words, as int32: those that `dropout` of this shape draws. Without a seed they
    are the default generator's next. Attributes are the operator's: subsequence, layout, ..."""
    return _fill("philox_words", shape, seed, offset, attributes)


@unified
def uniform(shape, seed=None, offset=0, **attributes):
    """Random float32 in (0, 1], the numbers of curand_uniform."""
    return _fill("uniform", shape, seed, offset, attributes)


# ---- loss scaling --------------------------------------------------------------------------------


def _memory_of(xs):
    """The tensors without their history: Paddle refuses to write in place what may want a gradient."""
    return [x.detach() for x in xs] if paddle.in_dynamic_mode() else list(xs)


@paddle.no_grad()
def check_finite_and_unscale(xs, scale, check="output"):
    """Multiplies every tensor of a list with 1 / scale, in place, and returns (xs, found_inf): a bool
    tensor of one element. The list may mix types."""
    xs = list(xs)
    if not xs:
        return xs, paddle.zeros([1], "bool")
    inputs = {"x": _memory_of(xs), "scale": scale}
    # A new found_inf begins as false.
    return xs, run("check_finite_and_unscale", inputs, {"check": check, "reset": True})[-1]


@paddle.no_grad()
def update_loss_scaling(
    xs,
    found_inf,
    prev_loss_scaling,
    num_good_steps,
    num_bad_steps,
    incr_every_n_steps,
    decr_every_n_nan_or_inf,
    incr_ratio,
    decr_ratio,
    stop_update=False,
):
    """A step of dynamic loss scaling, in place: the scale, the two counts (int32) and, if something
    was found, the tensors, which become 0."""
    inputs = {
        "x": _memory_of(xs),
        "found_inf": found_inf,
        "scale": prev_loss_scaling,
        "good_steps": num_good_steps,
        "bad_steps": num_bad_steps,
    }
    attributes = {
        "incr_every_n_steps": incr_every_n_steps,
        "decr_every_n_nan_or_inf": decr_every_n_nan_or_inf,
        "incr_ratio": incr_ratio,
        "decr_ratio": decr_ratio,
        "stop_update": stop_update,
    }
    run("update_loss_scaling", inputs, attributes)
    return xs, prev_loss_scaling, num_good_steps, num_bad_steps
