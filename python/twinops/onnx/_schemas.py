"""Tells the package onnx of every operator of the table, so that its checker and its shape inference know
the nodes of a graph."""

import atexit
import functools

import onnx
from onnx import TensorProto, defs

from twinops._native import operators
from twinops.onnx import _nodes

_Option = defs.OpSchema.FormalParameterOption
TYPES = {
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "bool": TensorProto.BOOL,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
}
_ONNX = {"float32": "float", "float64": "double"}


def _option(argument):
    if argument.is_list:
        return _Option.Variadic
    return _Option.Single if argument.is_required else _Option.Optional


def _parameter(argument, constraints):
    name = f"T_{argument.name}"
    types = [f"tensor({_ONNX.get(t, t)})" for t in argument.types]
    constraints.append((name, types, argument.doc))
    return defs.OpSchema.FormalParameter(
        argument.name,
        name,
        description=argument.doc,
        param_option=_option(argument),
        is_homogeneous=not argument.is_list,
    )


def _attribute(op, name, default):
    info = operators()[op].attribute_info.get(name)
    doc = "Of each run: 1 goes on in the sequence where the last one ended."
    if info:
        doc = info.doc
    elif default == "same":
        doc = "The type of that output, by its name; same: that of the input that it is like."
    kinds = defs.OpSchema.AttrType
    if default is None:
        return defs.OpSchema.Attribute(name, kinds.INT, "The output's last dimension.", required=True)
    kind = {bool: kinds.INT, int: kinds.INT, float: kinds.FLOAT, str: kinds.STRING}[type(default)]
    default = int(default) if isinstance(default, bool) else default
    return defs.OpSchema.Attribute(name, onnx.helper.make_attribute(name, default, doc), doc)


def _infer(op, context):
    places = {name: i for i, name in enumerate(_nodes.inputs(op))}
    at = 0
    for output in _nodes.outputs(op):
        like = places[output.like or _nodes.LIKE]
        end = context.get_num_inputs() if output.is_list else like + 1
        for i in range(like, end):
            if at < context.get_num_outputs() and i < context.get_num_inputs():
                _infer_output(context, output, i, at)
            at += 1


def _infer_output(context, output, like, at):
    source = context.get_input_type(like)
    if source is None or not source.tensor_type.elem_type:
        return
    made = onnx.TypeProto()
    wanted = output.type or ("uint32" if output.default == "uint32" else "")
    asked = context.get_attribute(_nodes.type_attribute(output)) if output.typed else None
    if asked is not None and asked.s.decode() in output.types:
        wanted = asked.s.decode()
    made.tensor_type.elem_type = TYPES[wanted] if wanted else source.tensor_type.elem_type
    if source.tensor_type.HasField("shape"):
        made.tensor_type.shape.CopyFrom(_shape(context, output, wanted, source.tensor_type.shape))
    context.set_output_type(at, made)


def _shape(context, output, wanted, like):
    shape = onnx.TensorShapeProto()
    if output.default == "uint32":
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in like.dim]
        words = shape.dim.add()
        if None not in sizes:
            words.dim_value = output.shape_for("uint32", sizes)[0]
        return shape
    dims = list(like.dim)[-1:] if output.shape == "last" else like.dim
    shape.dim.extend(dims)
    if output.shape == "resized" and dims:
        shape.dim[-1].dim_value = context.get_attribute(output.size).i
    return shape


def schema(op, outputs=None, given=None):
    """The operator's schema; or, for a node that has some of its outputs and attributes only, one with
    these."""
    table = operators()[op]
    arguments = {a.name: a for a in table.arguments}
    constraints, parameters = [], []
    for name in _nodes.inputs(op):
        if name == _nodes.LIKE:
            types = [f"tensor({_ONNX.get(t, t)})" for t in TYPES]
            constraints.append(("T_like", types, "Any."))
            parameters.append(defs.OpSchema.FormalParameter(name, "T_like"))
        else:
            parameters.append(_parameter(arguments[name], constraints))
    made = [o.name for o in _nodes.outputs(op) if outputs is None or o.name in outputs]
    results = [_parameter(arguments[name], constraints) for name in made]
    return defs.OpSchema(
        op,
        _nodes.DOMAIN,
        _nodes.VERSION,
        table.doc,
        inputs=parameters,
        outputs=results,
        type_constraints=constraints,
        attributes=[
            _attribute(op, name, default)
            for name, default in _nodes.attributes(op).items()
            if given is None or name in given
        ],
    )


@functools.cache
def register():
    """Once a process."""
    for op in operators():
        made = schema(op)
        made.set_type_and_shape_inference_function(functools.partial(_infer, op))
        defs.register_schema(made)
        # onnx would let go of the function when Python has ended, and hang or crash.
        atexit.register(defs.deregister_schema, op, _nodes.VERSION, _nodes.DOMAIN)
