"""Registers the handlers of hosts/jax/ with JAX, and calls operators of the table by name."""

import ctypes
import functools
from typing import NamedTuple

from twinops import _outputs
from twinops._arrays import text, word
from twinops._native import find, library, operators

_INSTALL = "`python -m pip install jax`"


def _import_jax():
    try:
        import jax
    except ImportError as error:
        raise ImportError(
            f"twinops.jax needs JAX, which this Python cannot import ({error}): {_INSTALL}"
        ) from error
    if tuple(map(int, jax.__version__.split(".")[:2])) < (0, 10):
        raise ImportError(f"twinops.jax needs JAX 0.10 or later; this is {jax.__version__}")
    return jax


# Calls of these need no scratch memory on a GPU, so that XLA may put them into a command buffer, but where
# a mask or a bias has a gradient, both are given, or rows are so long that the kernels of the longest take
# them.
_WITHOUT_SCRATCH = {
    "softmax", "log_softmax", "softmax_dropout", "softmax_grad", "log_softmax_grad", "softmax_dropout_grad",
    "dropout", "dropout_grad", "bias_dropout_residual", "philox_words", "uniform",
    "check_finite_and_unscale", "update_loss_scaling",
}  # fmt: skip
_LONG_ROW = 32768


def target(op, scratch=False):
    """The name under which XLA knows an operator: what a profile shows. scratch: with scratch memory on a
    GPU, and never in a command buffer."""
    return f"twinops_{op}_with_scratch" if scratch else f"twinops_{op}"


def _takes_scratch(config, inputs, flat, results):
    if config.op not in _WITHOUT_SCRATCH or "dmask" in results or "dbias" in results:
        return True
    if "softmax" in config.op and "mask" in inputs and "bias" in inputs:
        return True
    # A dimension that is no int is one that jax.export leaves open.
    return "softmax" in config.op and any(
        not isinstance(n, int) or n > _LONG_ROW for x in flat for n in x.shape
    )


@functools.cache
def load():
    """Registers every operator of the table for CPUs and CUDA devices, once a process."""
    jax = _import_jax()
    library()
    plugin = ctypes.CDLL(str(find("libtwinops_jax.so", "the part of twinops for JAX")))
    for name in operators():
        for scratch, on_cuda in enumerate((plugin.twinops_jax_cuda, plugin.twinops_jax_cuda_with_scratch)):
            for platform, handler in (("cpu", plugin.twinops_jax_cpu), ("CUDA", on_cuda)):
                capsule = jax.ffi.pycapsule(handler)
                jax.ffi.register_ffi_target(target(name, scratch), capsule, platform=platform)
    return plugin


class Config(NamedTuple):
    """What of a call is known when a program is made: hashable, and no array."""

    op: str
    attributes: tuple = ()  # (name, value), those that have not their default
    asked: tuple = ()  # (output, its type or None to leave it out), where it is not the default
    size: int = None  # the last dimension of a resized output
    shape: tuple = None  # of an output that is like no input
    in_place: tuple = ()  # (output, the input that it is written over)
    vmap: str = "sequential"


def config(op, attributes=None, asked=None, **rest):
    """A Config; TypeError for an operator, an attribute or an output that there is not."""
    if op not in operators():
        raise TypeError(f"no operator is named {op}; the operators are {', '.join(operators())}")
    table = operators()[op]
    given = {}
    for name, value in (attributes or {}).items():
        if name not in table.attributes:
            raise TypeError(f"{op} has no attribute {name}; it has {', '.join(table.attributes)}")
        _check_known(op, name, value)
        value = _value(table.attributes[name], value)
        if value != table.attributes[name]:
            given[name] = value
    names = {o.name: o for o in _outputs.outputs(op)}
    unknown = set(asked or {}) - set(names)
    if unknown:
        raise TypeError(f"{op} has no output {unknown.pop()}; it has {', '.join(names)}")
    for name, want in (asked or {}).items():
        if want is None and names[name].is_required:
            raise TypeError(f"{op}: {name}: cannot be left out")
    for output in names.values():
        if output.size:
            _check_known(op, output.size, rest.get("size"))
    return Config(op, tuple(sorted(given.items())), tuple(sorted((asked or {}).items())), **rest)


def _check_known(op, name, value):
    """An attribute is part of the program: it cannot be what the program is given when it runs."""
    import jax

    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{op}: {name}: expected a value that is known while the program is traced; got {value}. "
            "An argument of jit is one if it is named in static_argnames; scan and vmap cannot vary it"
        )


def _value(default, value):
    """An attribute's value with the type that the table gives it."""
    if isinstance(default, str):
        return text(value)
    if isinstance(default, int) and not isinstance(default, bool):
        return word(value)
    return type(default)(value)


def _joint(names, lists):
    return ",".join(f"{n}*{len(v)}" if isinstance(v, list) else n for n, v in zip(names, lists))


def varying(arrays):
    """Inside shard_map all of a call's inputs and outputs vary along the mesh's axes that one of its inputs
    varies along: a function that makes an array so. JAX's gradient of that is the sum over those axes."""
    import jax

    types = [getattr(jax.typeof(x), "manual_axis_type", None) for x in arrays]
    axes = frozenset().union(*(t.varying for t in types if t is not None))
    if not axes:
        return lambda x: x
    return lambda x: jax.lax.pcast(x, tuple(axes - jax.typeof(x).manual_axis_type.varying), to="varying")


def call(config, inputs):
    """Calls an operator: `inputs` maps names to arrays or lists of them. A dict of its outputs."""
    import jax
    import numpy as np

    op = operators()[config.op]
    inputs = {
        a.name: list(inputs[a.name]) if a.is_list else inputs[a.name]
        for a in op.inputs
        if inputs.get(a.name) is not None
    }
    missing = [a.name for a in op.inputs if a.is_required and a.name not in inputs]
    if missing:
        raise TypeError(f"{config.op}: {missing[0]}: expected an array; got None")
    results = _results(config, inputs)
    flat = [x for v in inputs.values() for x in (v if isinstance(v, list) else [v])]
    # Fresh outputs begin as 0.
    values = {**dict(config.attributes), **_outputs.FRESH.get(config.op, {})}
    numpy_types = {bool: bool, int: np.int64, float: np.float64, str: str}
    made = jax.ffi.ffi_call(
        target(config.op, _takes_scratch(config, inputs, flat, results)),
        [x for v in results.values() for x in (v if isinstance(v, list) else [v])],
        vmap_method=config.vmap,
        input_output_aliases=_aliases(config, inputs, results),
    )(
        *flat,
        op=config.op,
        args=_joint(inputs, inputs.values()),
        rets=_joint(results, results.values()),
        **{name: numpy_types[type(value)](value) for name, value in values.items()},
    )
    made = iter(map(varying(flat), made))
    return {
        name: [next(made) for _ in value] if isinstance(value, list) else next(made)
        for name, value in results.items()
    }


def _results(config, inputs):
    """The shapes and types of the outputs, by their names."""
    import jax

    asked, results = dict(config.asked), {}
    for output in _outputs.outputs(config.op):
        want = asked.get(output.name, output.default)
        if want is None:
            continue
        if output.is_list:
            like = inputs[output.like]
            results[output.name] = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in like]
            continue
        like = inputs.get(output.like)
        name = output.type_for(want, like.dtype.name if like is not None else "")
        shape = like.shape if like is not None else config.shape
        results[output.name] = jax.ShapeDtypeStruct(
            output.shape_for(name, shape, config.size), jax.numpy.dtype(name)
        )
    return results


def _places(values):
    """Where each name's first buffer stands."""
    places, at = {}, 0
    for name, value in values.items():
        places[name] = at
        at += len(value) if isinstance(value, list) else 1
    return places


def _aliases(config, inputs, results):
    ins, outs, aliases = _places(inputs), _places(results), {}
    for output, source in config.in_place:
        if output not in outs or source not in ins:
            continue
        count = len(inputs[source]) if isinstance(inputs[source], list) else 1
        aliases.update({ins[source] + i: outs[output] + i for i in range(count)})
    return aliases
