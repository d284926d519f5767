"""Graphs of a node or some more, and their sessions, for the tests."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from samples import sizes

import twinops.onnx
from twinops.onnx import _nodes

PROVIDERS = onnxruntime.get_available_providers()


def has_cuda():
    return "CUDAExecutionProvider" in PROVIDERS


def session(model, provider="CPUExecutionProvider", threads=2):
    options = twinops.onnx.register(onnxruntime.SessionOptions())
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if provider.startswith("CUDA"):
        onnxruntime.preload_dlls()  # CUDA's libraries, where they are Python packages
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    assert provider in made.get_providers()  # one that cannot be loaded is left out with a warning
    return made


def info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=18):
    """inputs: name -> array that says type and shape; outputs: name -> (type, shape)."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [info(name, array) for name, array in inputs.items()],
        [helper.make_tensor_value_info(name, *how) for name, how in outputs.items()],
        list(initializers),
    )
    opsets = [("", opset), ("twinops", 1), ("com.microsoft", 1)]
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=10
    )


def cast(x):
    """An array as NumPy can hand it to ONNX Runtime, which takes no bfloat16 of it: float32 holds its
    values."""
    return x.astype("f4") if x.dtype.name == "bfloat16" else x


def one_node(op, s, expected):
    """A graph of one node for a sample: the model, its feeds, and the names of its results in the order
    of `flat`. What is bfloat16 is float32 outside, with a Cast between."""
    nodes, feeds, names = [], {}, {}

    def feed(name, x):
        feeds[name] = cast(x)
        if x.dtype.name != "bfloat16":
            return name
        nodes.append(helper.make_node("Cast", [name], [name + "_16"], to=TensorProto.BFLOAT16))
        return name + "_16"

    for name, value in s.inputs.items():
        if value is not None:
            lists = isinstance(value, list)
            names[name] = [feed(f"{name}{i}", x) for i, x in enumerate(value)] if lists else feed(name, value)
    if s.shape:
        names[_nodes.LIKE] = feed(_nodes.LIKE, np.zeros(s.shape, "f4"))
    outputs, made, casts = {}, {}, []

    def result(name, x):
        name = f"{name}_result"
        kind = TensorProto.BFLOAT16 if x.dtype.name == "bfloat16" else None
        outputs[name] = (helper.np_dtype_to_tensor_dtype(cast(x).dtype), x.shape)
        if kind is None:
            return name
        casts.append(helper.make_node("Cast", [name + "_16"], [name], to=TensorProto.FLOAT))
        return name + "_16"

    for output in _nodes.outputs(op):
        value = expected.get(output.name)
        if isinstance(value, list):
            made[output.name] = [result(f"{output.name}{i}", x) for i, x in enumerate(value)]
        elif value is not None:
            made[output.name] = result(output.name, value)
    node = twinops.onnx.make_node(op, names, made, **s.attributes, **sizes(op, s))
    return model_of([*nodes, node, *casts], feeds, outputs), feeds


def flat(op, results):
    """The core's results in the order of a node's outputs, as float32 where they are bfloat16."""
    found = []
    for output in _nodes.outputs(op):
        value = results.get(output.name)
        if value is not None:
            found += map(cast, value if isinstance(value, list) else [value])
    return found


def strict(model):
    """The model with all shapes inferred; refused if they do not fit."""
    onnx.checker.check_model(model, full_check=True)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
