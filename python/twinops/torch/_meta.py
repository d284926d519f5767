"""The shapes and types of results without computing them: for meta tensors, torch.compile and export.
They follow from what the plugin says of itself, so that a new operator has them too."""

import torch

from twinops._native import operators
from twinops.torch import _compiled, _plugin

# Words are int32 with the same bits: PyTorch computes next to nothing in uint32.
_TYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "bool": torch.bool,
    "uint8": torch.uint8,
    "uint32": torch.int32,
}


def _result(op, result, arguments):
    like = arguments[result.like]
    asked = arguments[result.type_attribute] if result.type_attribute else "same"
    if asked == "" and result.optional:
        first = next(t for t in arguments.values() if isinstance(t, torch.Tensor))
        return first.new_empty([0], dtype=torch.uint8)
    if like is None:
        raise RuntimeError(f"{op}: {result.name}: is asked for, but no {result.like} is given")
    if asked == "same":
        asked = result.type
    if asked != "same" and asked not in _TYPES:
        raise RuntimeError(
            f"{op}: {result.type_attribute}: expected a type of {result.name}; got {asked!r}"
        )
    dtype = like.dtype if asked == "same" else _TYPES[asked]
    if result.optional and asked == "uint32":
        return like.new_empty([(like.numel() + 31) // 32], dtype=dtype)
    if result.shape == "dense" or (result.optional and asked in ("bool", "uint8")):
        return like.new_empty(like.shape, dtype=dtype)
    if result.shape == "like":
        return torch.empty_like(like, dtype=dtype)
    if like.dim() == 0:
        raise RuntimeError(f"{op}: {result.like}: expected a dimension or more; got a scalar")
    if result.shape == "row":
        return like.new_empty([like.shape[-1]], dtype=dtype)
    last = arguments[result.shape.removeprefix("last:")]
    return like.new_empty([*like.shape[:-1], last], dtype=dtype)


def _register(op):
    overload = getattr(torch.ops.twinops, op).default
    parameters = overload._schema.arguments
    described = _plugin.results(op)
    defaults = {p.name: p.default_value for p in parameters if p.has_default_value()}
    names = [p.name for p in parameters]

    def fake(*args, **kwargs):
        _compiled.prepare()
        arguments = {**defaults, **dict(zip(names, args)), **kwargs}
        made = tuple(_result(op, result, arguments) for result in described)
        return made if len(made) > 1 else made[0]

    def fake_of_text(*args, attributes="", **kwargs):
        named = dict(pair.split("=", 1) for pair in attributes.split(";") if pair)
        return fake(*args, **kwargs, **named)

    torch.library.register_fake(f"twinops::{op}", fake)
    torch.library.register_fake(f"twinops::_{op}", fake_of_text)


def _register_writing(name):
    torch.library.register_fake(name, lambda *args, **kwargs: None)


for _op in operators():
    if _plugin.is_in_place(_op):
        _register_writing(f"twinops::{_op}_")
    else:
        _register(_op)
        _register_writing(f"twinops::{_op}.out")
