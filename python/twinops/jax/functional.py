"""twinops' operators as pure functions of JAX: under jit, grad, vmap, scan, checkpoint and shard_map,
on CPUs and CUDA devices, with the same bits on both.

What draws random numbers takes a key first, as jax.random does; twinops/jax/keys.py says what a key is
to twinops. `spec` of such a function is for the inside of shard_map: the PartitionSpec that x came in
with, so that each shard draws its part of what the whole array would draw.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from twinops import _outputs
from twinops._native import operators
from twinops.jax._gradients import differentiable, has_gradient
from twinops.jax._plugin import call, config, varying
from twinops.jax.keys import Shards, seed_of, words_of


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _call(config, inputs):
    # What all shards share is made each one's own here, outside of the gradient, which is then summed.
    inputs = jax.tree.map(varying(jax.tree.leaves(inputs)), inputs)
    return (differentiable if has_gradient(config.op) else call)(config, inputs)


def run(op, inputs, attributes=None, *, asked=None, size=None, shape=None, in_place=None):
    """Calls an operator of `python -m twinops info` by its name, with its gradient if it has one:
    `run("softmax", {"x": x}, {"axis": 1})["out"]`.

    inputs: name -> array, or list of them; None is left out. attributes: name -> value.
    asked: output -> type, "same", or None to leave it out. size: the last dimension of a resized output
    (random_projection's k). shape: of an output that is like no input (uniform's). in_place: output -> the
    input that it may be written over: XLA copies it first where it is still needed.
    Returns a dict, output -> array or list. TypeError for names that the operator has not; what the
    operator refuses is raised by JAX when it runs, with the operator's message.
    """
    inputs = {name: value for name, value in inputs.items() if value is not None}
    over = tuple(sorted((in_place or {}).items()))
    settings = config(op, attributes, asked, size=size, shape=shape, in_place=over)
    unknown = set(inputs) - {a.name for a in operators()[op].inputs}
    if unknown:
        raise TypeError(f"{op} has no input {unknown.pop()}")
    return _call(settings, inputs)


# ---- softmax -------------------------------------------------------------------------------------


def _rows(x, axis, mask, lengths, bias, where, attributes):
    """Inputs and attributes of the softmax family, in a form that may get more dimensions in front."""
    x = jnp.asarray(x)
    if x.ndim == 0:
        raise ValueError("expected a dimension or more; got a scalar")
    axis = _axis(x, axis)
    if where is not None:
        if mask is not None:
            raise ValueError("where and mask are given: one of them says which elements count")
        mask = ~jnp.asarray(where, bool)
    inputs = {"x": x, "mask": _laid_over(x, mask), "bias": _laid_over(x, bias)}
    if lengths is not None:
        inputs["lengths"] = jnp.asarray(lengths)
    return inputs, {**attributes, "axis": axis - x.ndim}


def _axis(x, axis):
    """An axis of x, counted from the front."""
    if not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis: expected one int; got {axis!r}")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is not one of an array of {x.ndim} dimensions")
    return axis % x.ndim


def _laid_over(x, mask):
    """A mask or a bias of a type that goes with x, with as many dimensions."""
    if mask is None:
        return None
    mask = jnp.asarray(mask)
    wide = mask.dtype == jnp.float32 and x.dtype in (jnp.float16, jnp.bfloat16)
    if not wide and mask.dtype not in (jnp.bool_, jnp.uint8):
        mask = mask.astype(x.dtype)
    return mask.reshape((1,) * (x.ndim - mask.ndim) + mask.shape)


def _softmax(op, x, axis, mask, lengths, bias, where, dtype, in_place, attributes):
    inputs, attributes = _rows(x, axis, mask, lengths, bias, where, attributes)
    inputs = {name: value for name, value in inputs.items() if value is not None}
    asked = {"out": jnp.dtype(dtype).name} if dtype is not None else None
    fits = asked is None or asked["out"] == inputs["x"].dtype.name
    over = (("out", "x"),) if in_place and fits else ()
    settings = config(op, attributes, asked, vmap="broadcast_all", in_place=over)
    return _call(settings, inputs)["out"]


def softmax(
    x,
    axis=-1,
    where=None,
    *,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
    dtype=None,
    in_place=False,
):
    """jax.nn.softmax of float16, bfloat16, float32 or float64, of one dimension or more.

    where: bool, broadcast to x, True where an element counts. Beyond jax.nn's: of v = scale * x + mask,
    mask is added, or, bool or uint8, not 0 means masked out; lengths: int32 of x's first dimensions, how
    many elements of a row count; causal: row i sees columns 0 to i + causal_offset; masked_rows: what a
    row that is masked out throughout gives, "nan" or "zeros"; dtype: float32 of a 16-bit x, or 16 bits of
    a float32 x; in_place: the result may be written over x, so that an x that was donated to jit makes no
    second array (where x is still needed, XLA copies it first). bias: numbers that
    are added beside a mask or lengths. A mask of numbers and a bias have gradients.
    """
    attributes = {"scale": scale, "causal": causal, "causal_offset": causal_offset}
    attributes["masked_rows"] = masked_rows
    return _softmax("softmax", x, axis, mask, lengths, bias, where, dtype, in_place, attributes)


def log_softmax(
    x,
    axis=-1,
    where=None,
    *,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
    dtype=None,
    in_place=False,
):
    """jax.nn.log_softmax; the arguments are softmax's."""
    attributes = {"scale": scale, "causal": causal, "causal_offset": causal_offset}
    attributes["masked_rows"] = masked_rows
    return _softmax("log_softmax", x, axis, mask, lengths, bias, where, dtype, in_place, attributes)


# ---- dropout -------------------------------------------------------------------------------------

_MASKS = {None: None, "bits": "uint32", "bytes": "bool"}


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _call_with_key(config, key, inputs):
    return _call(config, {**inputs, **words_of(key)})


def _draw(op, key, inputs, attributes, asked, spec=None, *, shape=None, size=None, in_place=False):
    """An operator that draws, for the whole of `inputs["x"]` or for a shard of it."""
    inputs = {name: value for name, value in inputs.items() if value is not None}
    if key is None and not attributes.get("training", True):
        key = 0  # it is not read
    seed = seed_of(key)
    attributes = {**attributes, **seed}
    rest = {"shape": shape, "size": size, "in_place": (("y", "x"),) if in_place else ()}
    if spec is None:
        settings = config(op, attributes, asked, **rest)
        return _call(settings, inputs) if seed else _call_with_key(settings, key, inputs)
    words = {} if seed else words_of(key)
    shards = Shards(shape or inputs["x"].shape, spec, attributes.get("shared_axes", ()))
    attributes["global_shape"] = shards.global_shape
    if attributes.get("layout", "contiguous") == "contiguous" and shards.in_blocks:
        offset = shards.offset(shards.index(), words.get("offset_tensor"))
        words = {**words, "offset_tensor": offset}
        return _call(config(op, attributes, asked, **rest), {**inputs, **words})
    # Shards that begin inside a block: each has a program of its own.
    branches = [
        functools.partial(_call, config(op, {**attributes, "start": start}, asked, **rest))
        for start in shards.starts
    ]
    return jax.lax.switch(shards.index(), branches, {**inputs, **words})


def _check_mask(mask):
    if mask not in _MASKS:
        raise ValueError(f"mask: expected 'bits', 'bytes' or None; got {mask!r}")
    return _MASKS[mask]


def _drop_attributes(x, rate, deterministic, broadcast_dims, mode, subsequence, offset):
    return {
        "p": rate,
        "training": not deterministic,
        "mode": mode,
        "shared_axes": tuple(_axis(x, d) for d in broadcast_dims),
        "subsequence": subsequence,
        "offset": offset,
    }


def dropout(
    key,
    x,
    rate=0.5,
    *,
    deterministic=False,
    broadcast_dims=(),
    mode="upscale_in_train",
    mask=None,
    spec=None,
    subsequence=0,
    offset=0,
    in_place=False,
):
    """Drops each element of x with probability `rate` and scales the others with 1 / (1 - rate).

    key: a JAX key, or an int for a seed; not read if deterministic (then x comes back as it is, and it
    may be None).
    broadcast_dims: axes along which all elements share one draw, as flax's. mask: what the backward pass
    reads: None, nothing is stored and the mask is drawn again; "bits", an eighth of a byte an element;
    "bytes". All give the same gradients, of every order. offset: words of the sequence to skip, a multiple
    of 4. in_place: softmax's.
    """
    x = jnp.asarray(x)
    attributes = _drop_attributes(
        x, rate, deterministic, broadcast_dims, mode, subsequence, offset
    )
    asked = {"mask": _check_mask(mask)}
    return _draw("dropout", key, {"x": x}, attributes, asked, spec, in_place=in_place)["y"]


def bitmask_dropout(key, x, rate=0.5, *, mask="bits", **more):
    """(dropout(key, x, rate), its mask): uint32 of ceil(n / 32), element e is bit e % 32 of word e // 32,
    1 = kept; or, with mask="bytes", bool of x's shape. The rest is dropout's."""
    x = jnp.asarray(x)
    if _check_mask(mask) is None:
        raise ValueError("mask: expected 'bits' or 'bytes'; got None")
    spec = more.pop("spec", None)
    arguments = {"deterministic": False, "broadcast_dims": (), "mode": "upscale_in_train"}
    arguments.update(subsequence=0, offset=0)
    unknown = set(more) - set(arguments)
    if unknown:
        raise TypeError(f"bitmask_dropout has no argument {unknown.pop()}")
    attributes = _drop_attributes(x, rate, **{**arguments, **more})
    outputs = _draw("dropout", key, {"x": x}, attributes, {"mask": _MASKS[mask]}, spec)
    return outputs["y"], outputs["mask"]


def bias_dropout_residual(
    key,
    x,
    bias=None,
    residual=None,
    rate=0.5,
    *,
    deterministic=False,
    mode="upscale_in_train",
    mask=None,
    spec=None,
    subsequence=0,
    offset=0,
):
    """dropout(x + bias) + residual in one pass. bias: of a shape that broadcasts to x's; residual: of x's
    shape. The rest is dropout's."""
    x = jnp.asarray(x)
    if bias is not None:
        bias = jnp.asarray(bias)
        shape = _outputs.bias_shape(bias.shape, x.shape)
        bias = bias.reshape(shape) if len(shape) == 1 else jnp.broadcast_to(bias, shape)
    attributes = _drop_attributes(x, rate, deterministic, (), mode, subsequence, offset)
    inputs = {"x": x, "bias": bias, "residual": residual}
    asked = {"mask": _check_mask(mask)}
    return _draw("bias_dropout_residual", key, inputs, attributes, asked, spec)["y"]


def softmax_dropout(
    key,
    x,
    rate=0.5,
    axis=-1,
    *,
    deterministic=False,
    mode="upscale_in_train",
    where=None,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
    spec=None,
    subsequence=0,
    offset=0,
):
    """dropout(key, softmax(x), rate) in one pass, bit for bit: what attention does with its scores. mask,
    lengths and the rest are softmax's. The backward pass keeps the probabilities and draws the dropout's
    mask again."""
    rows = {"scale": scale, "causal": causal, "causal_offset": causal_offset}
    rows["masked_rows"] = masked_rows
    inputs, rows = _rows(x, axis, mask, lengths, bias, where, rows)
    drop = _drop_attributes(inputs["x"], rate, deterministic, (), mode, subsequence, offset)
    asked = {"dropout_mask": None}
    return _draw("softmax_dropout", key, inputs, {**rows, **drop}, asked, spec)["y"]


# ---- random numbers ------------------------------------------------------------------------------


def philox_words(key, shape, *, spec=None, **attributes):
    """The random 32-bit words that the elements of an array draw (Philox4x32-10 as cuRAND uses it), uint32
    of the given shape. Attributes are the operator's, by name: subsequence, offset, layout, period,
    shared_axes. docs/operators/philox_words.md"""
    return _draw("philox_words", key, {}, attributes, {}, spec, shape=tuple(shape))["words"]


def uniform(key, shape, *, spec=None, **attributes):
    """Uniform random numbers, float32 of the given shape: in (0, 1] with the bits of curand_uniform, or
    with layout="triton" in [0, 1) with those of tl.rand. The arguments are philox_words'.
    docs/operators/uniform.md"""
    return _draw("uniform", key, {}, attributes, {}, spec, shape=tuple(shape))["out"]


def random_projection(key, x, k, s=3.0, **attributes):
    """sqrt(s / k) * x @ R: the rows of x, [..., columns], in k dimensions, distances kept in the mean. R,
    [columns, k] of +1, 0 and -1, one entry in s (1 to 2^31) not 0, is drawn from the key as it is used;
    the same key is the same matrix. Returns [..., k] of x's type. docs/operators/random_projection.md"""
    outputs = _draw("random_projection", key, {"x": jnp.asarray(x)}, {"s": s, **attributes}, {}, size=k)
    return outputs["y"]


# ---- loss scaling --------------------------------------------------------------------------------


def check_finite_and_unscale(tree, scale, check="output"):
    """(tree with every array times 1 / scale, found_inf): one call for all arrays of a tree, whose types
    may differ. scale: a number, or float32 of one element; found_inf: bool of its shape. The arrays are
    written in place where XLA may (inside jit, or donated)."""
    leaves, structure = jax.tree.flatten(tree)
    scale = _state(scale, "float32")
    if not leaves:
        return tree, jnp.zeros(scale.shape, bool)
    settings = config(
        "check_finite_and_unscale", {"check": check}, in_place=(("out", "x"),)
    )
    outputs = _call(settings, {"x": leaves, "scale": scale})
    return jax.tree.unflatten(structure, outputs["out"]), outputs["found_inf"]


def update_loss_scaling(tree, found_inf, scale, good_steps, bad_steps, **attributes):
    """Takes one step of dynamic loss scaling: (tree, or zeros if found_inf; scale, good_steps, bad_steps).

    tree: floating arrays. found_inf: bool, uint8 or float32; scale: float32 or float64; good_steps and
    bad_steps: int32, steps in a row, finite and not finite; each of one element. Attributes, with their
    defaults: incr_every_n_steps (1000), decr_every_n_nan_or_inf (2), incr_ratio (2.0), decr_ratio (0.5),
    stop_update (False), min_scale (1.0). docs/operators/update_loss_scaling.md
    """
    leaves, structure = jax.tree.flatten(tree)
    state = {"scale": _state(scale, "float32")}
    state.update(good_steps=_state(good_steps, "int32"), bad_steps=_state(bad_steps, "int32"))
    over = (("out", "x"), *((f"{name}_out", name) for name in state))
    settings = config("update_loss_scaling", attributes, in_place=over)
    inputs = {"x": leaves, "found_inf": found_inf, **state}
    outputs = _call(settings, jax.tree.map(jnp.asarray, inputs))
    tree = jax.tree.unflatten(structure, outputs["out"])
    return tree, *(outputs[f"{name}_out"] for name in state)


def _state(value, dtype):
    """A number of Python's has the type that the operators take, also where JAX's default is of 64 bits."""
    return jnp.asarray(value, dtype if isinstance(value, (int, float)) else None)


def _for_arrays(plan, inputs, asked, attributes, size, shape):
    """twinops.dropout(x) and the others, where x is a JAX array."""
    op = plan.op
    names = [a.name for a in op.inputs]
    given = {n: v for n, v in zip(names, inputs) if v is not None}
    wants = {}
    for output, want in zip(_outputs.outputs(op.name), asked):
        if want is not None and not isinstance(want, str):
            want = plan.type_name(want)
            if want is None:
                raise TypeError(f"{op.name}: {output.name}: JAX's arrays cannot be written")
        wants[output.name] = want
    values = {n: v for n, v in zip(op.attributes, attributes) if v is not None}
    outputs = run(op.name, given, values, asked=wants, size=size, shape=shape)
    kinds = _outputs.outputs(op.name)
    left_out = {o.name for o in kinds if o.on_demand and wants[o.name] is None}
    results = [outputs.get(o.name) for o in kinds if o.name not in left_out]
    return results[0] if len(results) == 1 else tuple(results)
