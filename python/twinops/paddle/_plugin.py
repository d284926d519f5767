"""Loads the plugin into Paddle, and calls its operators by names instead of positions."""

import functools

from twinops._native import FOLDER, operators

PREFIX = "twinops_"
_PLUGIN = FOLDER / "libtwinops_paddle.so"
_BUILT_FOR = FOLDER / "paddle_version.txt"
_BUILD = "`python -m pip install --force-reinstall --no-deps .` in twinops' folder"


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
            f"was installed. Install it again where Paddle is: {_BUILD}"
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
    built_for = _BUILT_FOR.read_text().strip() if _PLUGIN.exists() else None
    check_version(paddle.version.full_version, built_for)
    known = registered()
    if known:
        raise ImportError(
            f"operators of the name {sorted(known)[0]} are registered in this process already, by "
            "another copy of the twinops plugin. Load one only: Paddle would call the other's."
        )
    try:
        paddle.utils.cpp_extension.load_op_meta_info_and_register_op(str(_PLUGIN))
    except Exception as error:
        raise ImportError(
            f"Paddle could not load {_PLUGIN}: {error}. A missing symbol means that it was built "
            f"for another PaddlePaddle than {paddle.version.full_version}: {_BUILD}"
        ) from error
    missing = expected() - registered()
    if missing:
        raise ImportError(f"twinops' plugin did not register {sorted(missing)}: {_BUILD}")


def registered():
    """Operators named twinops_* that Paddle knows, gradients aside."""
    from paddle.base.framework import OpProtoHolder

    names = (name for name in OpProtoHolder.instance().op_proto_map if name.startswith(PREFIX))
    return {n for n in names if not n.endswith("_grad")}


@functools.cache
def _signature(op):
    """Names of inputs, attributes with defaults, and outputs, in Paddle's order."""
    from paddle.utils.cpp_extension.extension_utils import parse_op_info

    inputs, attributes, outputs = parse_op_info(PREFIX + op)
    defaults = operators()[op].attributes
    return (
        tuple(name.split("@")[0] for name in inputs),
        # What is not twinops' is the plugin's own: the type of an optional output, left out by "".
        {name: defaults.get(name, "") for name in attributes},
        tuple(name.split("@")[0] for name in outputs),
    )


def run(op, inputs, attributes=None):
    """Calls an operator of the table: `run("softmax", {"x": x}, {"axis": 1})`.

    Inputs and attributes that are left out are not there, or have their defaults. Returns the list
    of outputs; an optional output is asked for by the attribute `<output>_type`. Works in dygraph
    and while a static graph is being made.
    """
    from paddle import _C_ops

    input_names, defaults, _ = _signature(op)
    attributes = attributes or {}
    unknown = (set(inputs) - set(input_names)) | (set(attributes) - set(defaults))
    if unknown:
        raise TypeError(
            f"twinops_{op} has no {', '.join(sorted(unknown))}; its inputs are "
            f"{', '.join(input_names)}, its attributes {', '.join(defaults)}"
        )
    values = [inputs.get(name) for name in input_names]
    # An attribute has its default's type: True for 1 would be refused.
    values += [type(d)(attributes.get(name, d)) for name, d in defaults.items()]
    return _C_ops._run_custom_op(PREFIX + op, *values)
