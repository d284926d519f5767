"""Loads the plugin into Paddle, and calls its operators by names instead of positions."""

import functools
import struct

from twinops._native import FOLDER, library, operators

PREFIX = "twinops_"
_DOUBLE, _BITS = struct.Struct("d"), struct.Struct("q")
_PLUGIN = FOLDER / "libtwinops_paddle.so"
_BUILT_FOR = FOLDER / "paddle_version.txt"
_eager_run = _in_dynamic_mode = None  # load() finds them
_BUILD = "`python -m twinops build-paddle`"


def _import_paddle():
    try:
        import paddle
    except ImportError as error:
        raise ImportError(
            "twinops.paddle needs PaddlePaddle, which this Python cannot import "
            f"({error}): `python -m pip install paddlepaddle`"
        ) from error
    return paddle


def check_version(paddle_version, built_for):
    """Paddle promises that a plugin can be built for every version, not that one serves two."""
    if built_for is None:
        raise ImportError(
            f"this twinops has no Paddle plugin ({_PLUGIN} is missing): no Paddle was found when it "
            f"was installed. Build it: {_BUILD}"
        )
    if built_for != paddle_version:
        raise ImportError(
            f"twinops' plugin was built for PaddlePaddle {built_for}; this is {paddle_version}. "
            f"Build it for this one: {_BUILD}, or install paddlepaddle=={built_for}"
        )


def expected():
    """The names under which the table's operators are registered: a gradient belongs to its
    operator."""
    names = set(operators())
    return {PREFIX + n for n in names if n.removesuffix("_grad") not in names - {n}}


@functools.cache
def load():
    """Registers every operator with Paddle, once a process."""
    paddle = _import_paddle()
    library()
    built_for = _BUILT_FOR.read_text().strip() if _PLUGIN.exists() else None
    check_version(paddle.version.full_version, built_for)
    known = registered()
    if known:
        raise ImportError(
            f"operators of the name {sorted(known)[0]} are registered in this process already, by "
            "another copy of the twinops plugin. Load one only: Paddle would call the other's."
        )
    try:
        # What paddle.utils.cpp_extension does; importing that would need an old setuptools.
        new = paddle.framework.core.load_op_meta_info_and_register_op(str(_PLUGIN))
        prototypes().update_op_proto(new)
    except Exception as error:
        raise ImportError(
            f"Paddle could not load {_PLUGIN}: {error}. A missing symbol means that it was built "
            f"for another PaddlePaddle than {paddle.version.full_version}: {_BUILD}"
        ) from error
    from twinops.paddle import _eager

    _eager.bind(_PLUGIN)
    global _eager_run, _in_dynamic_mode
    _eager_run, _in_dynamic_mode = _eager.run, paddle.in_dynamic_mode
    missing = expected() - registered()
    if missing:
        raise ImportError(f"twinops' plugin did not register {sorted(missing)}: {_BUILD}")


def prototypes():
    from paddle.base.framework import OpProtoHolder

    return OpProtoHolder.instance()


def registered():
    """Operators named twinops_* that Paddle knows; gradients and variants (_variant) aside."""
    names = (name for name in prototypes().op_proto_map if name.startswith(PREFIX))
    return {n for n in names if not n.endswith("_grad") and "_with_" not in n}


@functools.cache
def gradient_if_given(op):
    """Inputs that may be left out and have a gradient if they are not."""
    known = prototypes().op_proto_map
    return [a.name for a in operators()[op].arguments if f"{PREFIX}{op}_with_{a.name}" in known]


def has_gradient(op, tensor):
    """The mask and the bias of softmax may be there without a gradient; other inputs that may be left
    out have one if they are there."""
    return tensor is not None and not ("softmax" in op and tensor.stop_gradient)


def variant(op, inputs):
    """Paddle's static graphs know no gradient with respect to an input that is not there: such an
    operator is registered once for each choice of them (hosts/paddle/signature.hpp)."""
    if op not in operators():
        raise ValueError(f"twinops has no operator {op!r}; it has {', '.join(operators())}")
    given = [name for name in gradient_if_given(op) if has_gradient(op, inputs.get(name))]
    return PREFIX + op + ("_with_" + "_and_".join(given) if given else "")


def check_tensor(op, name, value):
    """Lists and arrays are no tensors of Paddle's: TypeError."""
    if not hasattr(value, "stop_gradient"):
        raise TypeError(f"{op}: {name}: expected a tensor; got {type(value).__name__}")


@functools.cache
def _signature(name, op):
    """Names of inputs, attributes with defaults, and outputs, in Paddle's order."""
    prototype = prototypes().get_op_proto(name)
    inputs = tuple(p.name.split("@")[0] for p in prototype.inputs)
    outputs = tuple(p.name.split("@")[0] for p in prototype.outputs)
    defaults = dict(operators()[op].attributes)
    # The plugin's own: the type of an optional output, left out by "", and the size of an output.
    defaults.update({f"{name}_type": "" for name in outputs}, k=0)
    attributes = (p.name for p in prototype.attrs if p.name in defaults)  # the others are Paddle's
    return inputs, {name: defaults[name] for name in attributes}, outputs


def _as_paddle_takes_it(value):
    """Paddle's programs have no attribute of 64 bits but int64: a float's bits travel in one."""
    if isinstance(value, float):
        return _BITS.unpack(_DOUBLE.pack(value))[0]
    return value


def _run_in_program(op, inputs, attributes):
    from paddle import _C_ops

    name = variant(op, inputs)
    input_names, defaults, _ = _signature(name, op)
    given = {k for k, v in inputs.items() if v is not None}
    unknown = (given - set(input_names)) | (set(attributes) - set(defaults))
    if unknown:
        raise TypeError(
            f"{name} has no {', '.join(sorted(unknown))}; its inputs are "
            f"{', '.join(input_names)}, its attributes {', '.join(defaults)}"
        )
    values = [inputs.get(n) for n in input_names]
    # An attribute has its default's type: True for 1 would be refused.
    values += [_as_paddle_takes_it(type(d)(attributes.get(n, d))) for n, d in defaults.items()]
    return _C_ops._run_custom_op(name, *values)


def run(op, inputs, attributes=None):
    """Calls an operator of the table (`python -m twinops info`, docs/operators/):
    `run("softmax", {"x": x}, {"axis": 1})`.

    op: its name.
    inputs: name -> tensor, or list of tensors; one that is left out or None is not there.
    attributes: name -> bool, int, float or str; one that is left out has its default. An optional
        output is asked for by the attribute `<output>_type`: the name of a type, or "same" for that of
        the first input. An output whose size the inputs do not say takes it from the attribute `k`.

    Returns the list of outputs. Works in dygraph and while a static graph is being made. A name that
    the operator does not have, and a value of another type, raise TypeError; what the library
    refuses raises ValueError, and what no kernel can do NotImplementedError.
    """
    if _in_dynamic_mode():
        return _eager_run(op, inputs, attributes or {})
    return _run_in_program(op, inputs, attributes or {})
