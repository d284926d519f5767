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

import math
import numbers

import paddle
from paddle.jit.marker import unified

from twinops.paddle._plugin import run
from twinops.paddle.generator import default_generator, signed

_MASK_TYPES = {"bits": "uint32", "bytes": "bool", None: ""}
_MODES = {"upscale_in_train": "upscale_in_train", "downscale_in_infer": "downgrade_in_infer"}


# ---- softmax -------------------------------------------------------------------------------------


def _mask_for(x, mask):
    """None, or a mask that twinops takes with x: another floating type is converted."""
    if mask is None:
        return None
    wide = x.dtype in (paddle.float16, paddle.bfloat16) and mask.dtype == paddle.float32
    kept = wide or mask.dtype in (x.dtype, paddle.bool, paddle.uint8)
    return mask if kept else mask.astype(x.dtype)


def _softmax(op, x, axis, dtype, mask, lengths, bias, **attributes):
    if dtype is not None:
        x = paddle.cast(x, dtype)
    inputs = {"x": x, "lengths": lengths, "mask": _mask_for(x, mask), "bias": _mask_for(x, bias)}
    if x.ndim == 0:  # Paddle takes a tensor without dimensions as a row of one
        inputs["x"] = paddle.reshape(x, [1])
        return run(op, inputs, attributes)[0].reshape([])
    return run(op, inputs, {"axis": axis, **attributes})[0]


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
    bias: numbers that are added beside a mask or lengths, broadcast by themselves; with a gradient as mask.
    lengths: int32 or int64, in the shape of x's first dimensions, one or more of those before the
        axis: how many elements of a row count, from its first on.
    scale: a finite number, rounded to float32 unless x is float64.
    causal: row i sees columns 0 to i + causal_offset only; for axis -1 and two dimensions or more.
    masked_rows: what a row gives that is masked out throughout: "nan", as Paddle, or "zeros".

    Returns a tensor of the shape and type of x. docs/operators/softmax.md
    """
    masks = {"scale": scale, "causal": causal, "causal_offset": causal_offset}
    return _softmax("softmax", x, axis, dtype, mask, lengths, bias, masked_rows=masked_rows, **masks)


def _written_into(x, y):
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
    return y if dtype is not None else _written_into(x, y)


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
    masks = {"scale": scale, "causal": causal, "causal_offset": causal_offset}
    return _softmax("log_softmax", x, axis, dtype, mask, lengths, bias, masked_rows=masked_rows, **masks)


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

    x, axis, mask, lengths: softmax's, and by keyword also scale, causal, causal_offset, masked_rows.
    p, training, mode, generator: dropout's.

    Returns a tensor of the shape and type of x. docs/operators/softmax_dropout.md
    """
    inputs = {"x": x, "lengths": lengths, "mask": _mask_for(x, mask), "bias": _mask_for(x, bias)}
    wants_gradient = paddle.is_grad_enabled() and any(
        t is not None and not t.stop_gradient for t in (x, mask, bias)
    )
    kept = {"probabilities_type": "same" if wants_gradient else "", "dropout_mask_type": "uint32"}
    more, attributes = _random_arguments(x, p, None, training, mode, generator)
    attributes.update(row_masks, axis=axis, **kept)
    return run("softmax_dropout", {**inputs, **more}, attributes)[0]


# ---- dropout -------------------------------------------------------------------------------------


class LeftToPaddle(TypeError):
    """What Paddle's function takes and ours does not: patch() gives it to Paddle's."""


def _probability(p):
    """p as a number; a tensor of one element is read."""
    if isinstance(p, paddle.Tensor):
        return p.item()
    if isinstance(p, paddle.pir.Value):
        raise LeftToPaddle("p argument should be a number in a program; got a tensor")
    return p


def _check_dropout(p, mode):
    if type(p) is not float and (not isinstance(p, numbers.Real) or isinstance(p, bool)):
        raise TypeError(f"p argument should be a number; got {type(p).__name__}")
    if not 0 <= p <= 1:
        raise ValueError(f"p argument should between 0 and 1; got {p}")
    if mode not in _MODES:
        raise ValueError(
            f"mode argument should be 'downscale_in_infer' or 'upscale_in_train'; got {mode!r}"
        )


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
    shape = x.shape if not shared else [n for i, n in enumerate(x.shape) if i not in shared]
    draws = max(math.prod(shape), 0)
    return (draws + 3) // 4 * 4


def _random_arguments(x, p, axis, training, mode, generator):
    """What every operator of the family is given to drop elements of x: (inputs, attributes)."""
    p = _probability(p)
    _check_dropout(p, mode)
    shared = _shared_axes(x, axis)
    attributes = {
        "p": p,
        "mode": _MODES[mode],
        "training": training,
        "shared_axes": ",".join(map(str, shared)),
    }
    if not training or p in (0, 1):
        return {}, attributes
    inputs, random = (generator or default_generator()).random_arguments(_words(x, shared))
    return inputs, {**attributes, **random}


def _drop(op, inputs, p, axis, training, mode, generator, mask):
    """[y, mask or a tensor without elements]."""
    if mask not in _MASK_TYPES:
        raise ValueError(f"mask argument should be 'bits', 'bytes' or None; got {mask!r}")
    more, attributes = _random_arguments(inputs["x"], p, axis, training, mode, generator)
    return run(op, {**inputs, **more}, {**attributes, "mask_type": _MASK_TYPES[mask]})


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
    return _written_into(x, y) if inplace else y


def _channel_axes(x, data_format, rank, formats):
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
    bias: None, or a tensor of the type of x and of shape [x.shape[-1]] or the shape of x.
    residual: None, or a tensor of the shape and type of x.
    p, training, mode, generator, mask: dropout's.

    Returns a tensor of the shape and type of x. docs/operators/bias_dropout_residual.md
    """
    inputs = {"x": x, "bias": bias, "residual": residual}
    return _drop("bias_dropout_residual", inputs, p, None, training, mode, generator, mask)[0]


# ---- random numbers ------------------------------------------------------------------------------


# What says where in a sequence to draw. Without a seed that is the default generator's to say.
_PLACED = ("offset", "subsequence", "element_offset", "global_shape", "start")


def _fill(op, shape, seed, offset, attributes):
    inputs = {"like": paddle.empty(shape, "uint8")}
    if seed is None:
        asked = {"offset": offset, **attributes}
        placed = [name for name in _PLACED if asked.get(name)]
        if asked.get("layout") == "triton":  # whose sequence has no offset
            placed.append("layout='triton'")
        if placed:
            raise ValueError(f"{op}: {', '.join(placed)} needs a seed; none was given")
        more, random = default_generator().random_arguments((math.prod(shape) + 3) // 4 * 4)
        return run(op, {**inputs, **more}, {**attributes, **random})[0]
    return run(op, inputs, {"seed": signed(seed), "offset": offset, **attributes})[0]


@unified
def philox_words(shape, seed=None, offset=0, **attributes):
    """The random 32-bit words that the elements of a tensor draw (Philox4x32-10 as cuRAND uses it).

    shape: of the tensor that is returned: int32, with the bits of the words.
    seed: an integer of 64 bits; None: the default generator's next words, which says itself where to
        draw, so that offset and other attributes of a place raise ValueError.
    offset: words of the sequence to skip; a multiple of 4.
    attributes: the operator's others by name, as subsequence, layout, period, global_shape, start,
        shared_axes. docs/operators/philox_words.md
    """
    return _fill("philox_words", shape, seed, offset, attributes)


@unified
def uniform(shape, seed=None, offset=0, **attributes):
    """Uniform random numbers, float32 of the given shape: in (0, 1] with the bits of curand_uniform, or
    with layout="triton" in [0, 1) with those of tl.rand. The arguments are philox_words'.
    docs/operators/uniform.md"""
    return _fill("uniform", shape, seed, offset, attributes)


@unified
def random_projection(x, k, seed, s=3.0, **attributes):
    """sqrt(s / k) * x @ R: the rows of x in k dimensions, distances kept in the mean. R, [columns, k]
    of +1, 0 and -1, is drawn from the seed as it is used; the same seed is the same matrix.

    x: floating, [..., columns].
    k: columns of the result, 1 or more.
    seed: an integer of 64 bits.
    s: one entry of R in s is not 0; 1 to 2^31.
    attributes: subsequence, offset, element_offset, as of philox_words.

    Returns [..., k] of the type of x. docs/operators/random_projection.md
    """
    return run("random_projection", {"x": x}, {"k": k, "seed": signed(seed), "s": s, **attributes})[0]


# ---- loss scaling --------------------------------------------------------------------------------


def _memory_of(xs):
    """The tensors without their history: Paddle refuses to write in place what may want a gradient."""
    return [x.detach() for x in xs] if paddle.in_dynamic_mode() else list(xs)


@paddle.no_grad()
def check_finite_and_unscale(xs, scale, check="output"):
    """Paddle's operator check_finite_and_unscale_: multiplies every tensor of a list with 1 / scale, in
    place, and looks for values that are not finite.

    xs: floating tensors, any number, shapes and mix of types.
    scale: float32 or float64, one element, where the tensors are.
    check: which values must be finite: "output", those that are stored, or "input", those that are
        read.

    Returns (xs, found_inf), found_inf a bool tensor of shape [1].
    docs/operators/check_finite_and_unscale.md
    """
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
    """Paddle's operator update_loss_scaling_: takes one step of dynamic loss scaling, in place.

    xs: floating tensors; they become 0 if found_inf is true.
    found_inf: bool, one element, of check_finite_and_unscale.
    prev_loss_scaling: float32 or float64, one element: the scale.
    num_good_steps, num_bad_steps: int32, one element: steps in a row, finite and not finite.
    incr_every_n_steps: the scale is raised after so many finite steps; 1 or more.
    decr_every_n_nan_or_inf: it is lowered after so many steps in a row that are not; 1 or more.
    incr_ratio, decr_ratio: the factors; above 1, and between 0 and 1. The scale stays 1 or more.
    stop_update: the state stays as it is; tensors are still zeroed.

    Returns (xs, prev_loss_scaling, num_good_steps, num_bad_steps).
    docs/operators/update_loss_scaling.md
    """
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
