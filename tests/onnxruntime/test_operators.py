"""Every operator of the table as a node of ONNX Runtime: its bits are those of the core called directly,
on the CPU and, where ONNX Runtime has one, on a GPU; types and shapes; what is refused, and how."""

import subprocess
import sys

import core
import numpy as np
import onnx
import pytest
from graphs import flat, has_cuda, model_of, one_node, session, strict
from onnx import TensorProto, helper
from samples import TYPES, sample

import twinops
import twinops.onnx

NAMES = list(twinops.operators())


@pytest.fixture(params=["CPUExecutionProvider", "CUDAExecutionProvider"])
def provider(request):
    if request.param.startswith("CUDA") and not has_cuda():
        pytest.skip("this ONNX Runtime has no CUDA")
    return request.param


def sample_of(op, rng, dtype):
    s = sample(op, rng, dtype)
    # A node's mask has one bit an element.
    s = s._replace(asked={name: type for name, type in s.asked.items() if type != "bool"})
    if dtype != "float64":
        return s
    # An attribute of a graph is a float of 32 bits.
    return s._replace(attributes={k: v for k, v in s.attributes.items() if k != "scale"})


@pytest.mark.covers("CPU")
@pytest.mark.covers("compiled")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", NAMES)
def test_an_operator_gives_the_bits_of_the_core(op, dtype, rng, provider):
    s = sample_of(op, rng, dtype)
    expected = core.run(op, *s)
    model, feeds = one_node(op, s, expected)
    results = session(model, provider).run(None, feeds)
    for ours, theirs in zip(results, flat(op, expected), strict=True):
        core.assert_same(ours, theirs, op)


@pytest.mark.parametrize("op", NAMES)
def test_shapes_are_inferred(op, rng):
    s = sample_of(op, rng, "float32")
    model, _ = one_node(op, s, core.run(op, *s))
    known = {o.name: o.type for o in model.graph.output}
    del model.graph.output[:]
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    found = {v.name: v.type for v in graph.value_info}
    for name, type in known.items():
        assert found[name] == type, name


@pytest.mark.parametrize("op", NAMES)
def test_schemas_are_the_table(op):
    schema, table = onnx.defs.get_schema(op, 1, "twinops"), twinops.operators()[op]
    assert schema.doc == table.doc
    assert set(table.attributes) <= set(schema.attributes)
    assert {a.name for a in table.arguments} <= {p.name for p in [*schema.inputs, *schema.outputs]}


def test_inputs_in_the_middle_may_be_left_out(rng, provider):
    x, lengths = rng.standard_normal([3, 5, 7]).astype("f4"), np.array([7, 2, 5], "i4")
    node = twinops.onnx.make_node("softmax", {"x": "x", "lengths": "n"}, {"out": "y"})
    assert list(node.input) == ["x", "", "n"]
    model = model_of([node], {"x": x, "n": lengths}, {"y": (TensorProto.FLOAT, x.shape)})
    strict(model)
    (y,) = session(model, provider).run(None, {"x": x, "n": lengths})
    core.assert_same(y, core.run("softmax", {"x": x, "lengths": lengths})["out"])


def test_outputs_that_nobody_wants_are_not_made(rng, provider):
    x = rng.standard_normal([3, 41]).astype("f4")
    node = twinops.onnx.make_node("dropout", {"x": "x"}, {"y": "y"}, seed=3)
    model = model_of([node], {"x": x}, {"y": (TensorProto.FLOAT, x.shape)})
    expected = core.run("dropout", {"x": x}, {"seed": 3})["y"]
    core.assert_same(session(model, provider).run(None, {"x": x})[0], expected)


def test_dimensions_may_have_names(rng, provider):
    node = twinops.onnx.make_node("dropout", {"x": "x"}, {"y": "y", "mask": "m"}, seed=3)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 7])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 7]),
            helper.make_tensor_value_info("m", TensorProto.UINT32, ["words"]),
        ],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("twinops", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    strict(model)
    run = session(model, provider)
    for rows in (0, 1, 5, 64):
        x = rng.standard_normal([rows, 7]).astype("f4")
        expected = core.run("dropout", {"x": x}, {"seed": 3})
        for ours, theirs in zip(run.run(None, {"x": x}), expected.values(), strict=True):
            core.assert_same(ours, theirs)


def test_advance_goes_on_from_run_to_run(rng, provider):
    x = rng.standard_normal([3, 41]).astype("f4")  # 124 words are reserved for 123 elements
    node = twinops.onnx.make_node("dropout", {"x": "x"}, {"y": "y"}, seed=3, offset=8, advance=1)
    model = model_of([node], {"x": x}, {"y": (TensorProto.FLOAT, x.shape)})
    for _ in range(2):  # a new session begins again
        run = session(model, provider)
        for i in range(3):
            expected = core.run("dropout", {"x": x}, {"seed": 3, "offset": 8 + 124 * i})["y"]
            core.assert_same(run.run(None, {"x": x})[0], expected)


@pytest.mark.parametrize("x_type, y_type", [("float16", "float32"), ("float32", "float16")])
def test_results_of_another_type(x_type, y_type, rng, provider):
    x = rng.standard_normal([3, 41]).astype(x_type)
    node = twinops.onnx.make_node("softmax", {"x": "x"}, {"out": "y"}, out_type=y_type)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(y_type))
    model = model_of([node], {"x": x}, {"y": (kind, x.shape)})
    strict(model)
    expected = core.run("softmax", {"x": x}, asked={"out": y_type})["out"]
    core.assert_same(session(model, provider).run(None, {"x": x})[0], expected)


@pytest.mark.parametrize("rows, columns", [(1, 300_000), (700, 1000), (40_000, 3)])
def test_work_that_threads_share(rows, columns, rng, provider):
    x = rng.standard_normal([rows, columns]).astype("f4")
    node = twinops.onnx.make_node("softmax", {"x": "x"}, {"out": "y"})
    model = model_of([node], {"x": x}, {"y": (TensorProto.FLOAT, x.shape)})
    expected = core.run("softmax", {"x": x})["out"]
    for threads in (1, 2, 5):
        core.assert_same(session(model, provider, threads).run(None, {"x": x})[0], expected)


def test_beside_onnx_runtimes_own_softmax(rng):
    x = (rng.standard_normal([50, 700]) * 5).astype("f4")
    for op, theirs in (("softmax", "Softmax"), ("log_softmax", "LogSoftmax")):
        nodes = [
            twinops.onnx.make_node(op, {"x": "x"}, {"out": "ours"}),
            helper.make_node(theirs, ["x"], ["theirs"], axis=-1),
        ]
        shapes = {name: (TensorProto.FLOAT, x.shape) for name in ("ours", "theirs")}
        ours, theirs = session(model_of(nodes, {"x": x}, shapes)).run(None, {"x": x})
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


X = np.ones([2, 3], "f4")


@pytest.mark.parametrize(
    "words, node",
    [
        ("dropout: p: expected a probability", ("dropout", {"p": 1.5})),
        ("softmax: axis", ("softmax", {"axis": 4})),
        ("mode", ("dropout", {"mode": "up"})),
        ("the attribute k is missing", ("random_projection", {})),
        ('out_type: expected "same" or a type of out; got "int"', ("softmax", {"out_type": "int"})),
    ],
)
def test_refusals_have_the_operators_message(words, node):
    op, attributes = node
    made = helper.make_node(op, ["x"], ["y"], domain="twinops", **attributes)
    with pytest.raises(Exception, match=words):
        session(model_of([made], {"x": X}, {"y": (TensorProto.FLOAT, None)})).run(None, {"x": X})


@pytest.mark.parametrize(
    "words, how",
    [
        ("has no input y", ({"y": "a"}, {}, {})),
        ("has no output x", ({"x": "a"}, {"x": "b"}, {})),
        ("has no attribute axes", ({"x": "a"}, {"out": "b"}, {"axes": 1})),
        ("out_type: expected same, float16.*; got 'fp16'", ({"x": "a"}, {"out": "b"}, {"out_type": "fp16"})),
    ],
)
def test_nodes_are_refused_when_they_are_made(words, how):
    with pytest.raises(ValueError, match=words):
        twinops.onnx.make_node("softmax", how[0], how[1], **how[2])


@pytest.mark.parametrize(
    "op, name, value, expected",
    [
        ("softmax", "scale", 2, "a float"),
        ("softmax", "axis", 1.0, "an int"),
        ("softmax", "out_type", 10, "a string"),
        ("dropout", "p", "half", "a float"),
        ("dropout", "p", [0.5], "a float"),
        ("dropout", "global_shape", [2, 3], "a string"),
    ],
)
def test_an_attribute_of_another_kind_is_not_taken_for_one_that_is_left_out(op, name, value, expected):
    node = helper.make_node(op, ["x"], ["y"], domain="twinops", **{name: value})
    with pytest.raises(Exception, match=f"{op}: the attribute {name}: expected {expected}"):
        session(model_of([node], {"x": X}, {"y": (TensorProto.FLOAT, None)}))


def test_nodes_take_what_other_hosts_take():
    given = {"seed": 2**64 - 1, "global_shape": (4, 3), "start": (2, 0), "p": 1}
    made = twinops.onnx.make_node("dropout", {"x": "x"}, {"y": "y"}, "d", **given)
    assert made.name == "d"
    values = {a.name: helper.get_attribute_value(a) for a in made.attribute}
    assert values == {"seed": -1, "global_shape": b"4,3", "start": b"2,0", "p": 1.0}


def test_onnx_forgets_the_schemas_before_python_ends():
    """What onnx holds of Python's when Python has ended crashes versions of it."""
    program = """
import atexit, onnx
atexit.register(lambda: print(onnx.defs.has("softmax", 1, "twinops")))
import twinops.onnx
print(onnx.defs.has("softmax", 1, "twinops"))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]
