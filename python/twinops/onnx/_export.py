"""torch.onnx.export of PyTorch modules that call twinops.torch: each operator torch.ops.twinops.* becomes its
node. What is computed then has the bits that PyTorch's eager mode has."""

import itertools
import math
import struct

import numpy as np
import onnx
from onnx import TensorProto

from twinops._native import operators
from twinops.onnx import _nodes, _schemas

# PyTorch's integers that stand for a node's words.
_WORDS = {TensorProto.INT32: "uint32", TensorProto.INT64: "uint64"}
_RENAMED = {"dropout_mode": "mode"}  # hosts/torch/signature.cpp


def translation_table(seed=0):
    """What torch.onnx.export(model, arguments, dynamo=True, custom_translation_table=...) has to know of
    twinops: a dict, PyTorch's operator -> the function that makes nodes of a call of it.

    seed: of dropouts that draw: ONNX has no random state, so each gets a subsequence of this seed, of its
    own, and goes on in it from run to run of a session, as replace()'s do. One table is for one export.

    The export is refused, with the reason, for a mask of bytes, for a type that a node cannot give, and
    for an attribute of a float64 tensor that is no float32: that is what a graph's attributes are.
    ImportError without PyTorch or onnxscript, which that export needs.
    """
    torch = _import()
    from twinops.torch import _plugin

    table = {
        getattr(torch.ops.twinops, op).default: _function(op, _translate, _Operator(torch, op))
        for op in _plugin.functional_names()
    }
    draw = _function("draw_seed", _draw, seed, itertools.count(1))
    table[torch.ops.twinops.draw_seed.default] = draw
    table[torch.ops.twinops.place_of.default] = _function("place_of", lambda x: _constant(np.int64(0)))
    return table


def _function(name, function, *first):
    """A function of the rest of the arguments. PyTorch reads its name and annotations, which a partial has
    not."""

    def translate(*args, **kwargs):
        return function(*first, *args, **kwargs)

    translate.__name__ = f"twinops_{name}"
    return translate


def _import():
    try:
        import onnxscript  # noqa: F401
        import torch

        import twinops.torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"twinops.onnx.translation_table needs PyTorch and onnxscript ({error}): "
            "`python -m pip install torch onnxscript`"
        ) from error
    return torch


class _Operator:
    """PyTorch's operator, and what the node has of it."""

    def __init__(self, torch, op):
        from twinops.torch import _plugin

        arguments = getattr(torch.ops.twinops, op).default._schema.arguments
        self.op = op
        self.names = [a.name for a in arguments]
        self.defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
        self.results = _plugin.results(op)
        # Attributes that say whether a result is made at all are outputs of a node.
        self.optional = {r.type_attribute for r in self.results if r.optional}
        self.accepted = {a.name: a.types for a in operators()[op].inputs}

    def bind(self, args, kwargs):
        return {**self.defaults, **dict(zip(self.names, args)), **kwargs}


def _opset():
    from onnxscript import opset18

    return opset18


def _node(op, outputs, *inputs, **attributes):
    """The values of the outputs, in the node's order."""
    from onnxscript import values

    schema = _schemas.schema(op, outputs, attributes)
    made = values.Op(values.Opset(_nodes.DOMAIN, _nodes.VERSION), op, schema)(*inputs, **attributes)
    return [made] if len(outputs) == 1 else list(made)


def _constant(array):
    return _opset().Constant(value=onnx.numpy_helper.from_array(np.asarray(array)))


def _draw(seed, subsequences, place):
    """A seed of 62 bits, a number of the host's."""
    op = _opset()
    (words,) = _node(
        "philox_words",
        ["words"],
        _constant(np.zeros(2, "u1")),
        seed=seed,
        subsequence=next(subsequences),
        advance=1,
    )
    halves = op.Cast(op.BitShift(words, _constant(np.uint32(1)), direction="RIGHT"), to=TensorProto.INT64)
    # Not ReduceSum: ONNX Runtime's loses digits of an int64.
    low, high = (op.Gather(halves, _constant(np.int64(i))) for i in range(2))
    return op.Add(low, op.Mul(high, _constant(np.int64(2**31))))


def _type(value):
    return int(value.dtype) if value is not None and value.dtype is not None else None


def _translate(known, *args, **kwargs):
    given = known.bind(args, kwargs)
    inputs = {
        name: _as_words(given[name], known.accepted.get(name, ())) for name in _nodes.inputs(known.op)
    }
    outputs = _outputs(known, given)
    attributes = _attributes(known, given, inputs)
    values = dict(zip(outputs, _node(known.op, outputs, *inputs.values(), **attributes)))
    found = tuple(_result(given, result, values.get(result.name)) for result in known.results)
    return found if len(found) > 1 else found[0]


def _as_words(value, types):
    """PyTorch's int32 and int64 for words of the same bits."""
    words = _WORDS.get(_type(value))
    if words in types and words[1:] not in types:
        return _opset().Cast(value, to=_schemas.TYPES[words])
    return value


def _outputs(known, given):
    """The outputs that the node has, in its order."""
    left = set()
    for result in known.results:
        if not result.optional:
            continue
        asked = given[result.type_attribute]
        if asked == "":
            left.add(result.name)
        elif asked in ("bool", "uint8"):
            raise ValueError(
                f"{known.op}: {result.type_attribute}={asked!r}: a node's mask has one bit an element: "
                "ask for 'uint32' (of a function, mask='bits')"
            )
    return [o.name for o in _nodes.outputs(known.op) if o.name not in left]


def _attributes(known, given, inputs):
    table = _nodes.attributes(known.op)
    double = TensorProto.DOUBLE in map(_type, inputs.values())
    found = {}
    for name in known.names:
        node_name, value = _RENAMED.get(name, name), given[name]
        if name in inputs or name in known.optional or value == table.get(node_name):
            continue
        if isinstance(value, float) and double and not _is_float32(value):
            raise ValueError(
                f"{known.op}: {name}={value!r} of float64 tensors: an ONNX attribute is a float32, and "
                f"the bits would be others. {_float32(value)!r} is the next"
            )
        found[node_name] = int(value) if isinstance(value, bool) else value
    return found


def _float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def _is_float32(value):
    return math.isinf(value) or _float32(value) == value


def _result(given, result, value):
    if value is None:
        return _constant(np.zeros(0, "u1"))  # PyTorch's in place of a result that is left out
    asked = given[result.type_attribute] if result.optional else result.type
    return _opset().Cast(value, to=TensorProto.INT32) if asked == "uint32" else value
