"""How an operator of the table is a node of a graph, in the domain "twinops": hosts/onnxruntime/ sees it
the same way."""

import functools

from onnx import helper

from twinops import _outputs
from twinops._arrays import text, word
from twinops._native import operators

DOMAIN, VERSION = "twinops", 1
LIKE = "like"  # the first input of an operator that makes tensors of nothing: only its shape is used


@functools.cache
def inputs(op):
    """The names of a node's inputs in order: a list comes last."""
    table = operators()[op].inputs
    names = [a.name for a in table if not a.is_list] + [a.name for a in table if a.is_list]
    return ([] if any(a.is_required for a in table) else [LIKE]) + names


@functools.cache
def outputs(op):
    """The outputs (of twinops._outputs) of a node in order: a list comes last."""
    table = _outputs.outputs(op)
    return [o for o in table if not o.is_list] + [o for o in table if o.is_list]


def _ordered(op, what, names, given):
    """The given names of tensors in a node's order; "" stands for one that is left out."""
    unknown = set(given) - set(names)
    if unknown:
        raise ValueError(f"{op} has no {what} {unknown.pop()}; it has {', '.join(names)}")
    found = []
    for name in names:
        value = given.get(name, "")
        found += list(value) if isinstance(value, (list, tuple)) else [value]
    while found and not found[-1]:
        found.pop()
    return found


def type_attribute(output):
    """The attribute that asks for another type of an output, by the type's name."""
    return f"{output.name}_type"


@functools.cache
def attributes(op):
    """The names of a node's attributes and their defaults, of which those of resized outputs are None."""
    known = dict(operators()[op].attributes)
    known.update({o.size: None for o in _outputs.outputs(op) if o.size})
    known.update({type_attribute(o): "same" for o in _outputs.outputs(op) if o.typed})
    if "offset" in known:
        known["advance"] = 0
    return known


def _value(default, value):
    """An attribute's value as a node has it: integers of 64 bits, and several of them as text."""
    if isinstance(default, str):
        return text(value)
    return float(value) if isinstance(default, float) else word(value)


def make_node(op, inputs_by_name, outputs_by_name, name=None, **given):
    """A node of the operator `op`: `make_node("softmax", {"x": "scores"}, {"out": "weights"}, axis=1)`.

    inputs_by_name, outputs_by_name: the table's names -> names of tensors in the graph, or lists of them;
    what may be left out may be missing. given: the operator's attributes; k or columns of a projection;
    out_type="float32" and its like of the softmax family, for a result of another type than x; and
    advance=1 of one that draws: each run of a session goes on in the sequence where the last one ended.
    ValueError for names, and for types, that there are not.
    """
    if op not in operators():
        raise ValueError(f"no operator is named {op}; the operators are {', '.join(operators())}")
    known = attributes(op)
    unknown = set(given) - set(known)
    if unknown:
        raise ValueError(f"{op} has no attribute {unknown.pop()}; it has {', '.join(known)}")
    values = {n: _value(known[n], v) for n, v in given.items()}
    for output in outputs(op):
        asked = type_attribute(output)
        if values.get(asked, "same") not in ("same", *output.types):
            raise ValueError(f"{op}: {asked}: expected same, {', '.join(output.types)}; got {values[asked]!r}")
    return helper.make_node(
        op,
        _ordered(op, "input", inputs(op), inputs_by_name),
        _ordered(op, "output", [o.name for o in outputs(op)], outputs_by_name),
        name=name,
        domain=DOMAIN,
        **values,
    )
