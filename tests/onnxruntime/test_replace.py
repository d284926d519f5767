"""twinops.onnx.replace: graphs of ONNX's operators and of ONNX Runtime's own become twinops', run, and
give the core's bits; what cannot be replaced stays, and says why."""

import core
import numpy as np
import onnx.inliner
import pytest
from graphs import model_of, session, strict
from onnx import TensorProto, helper

import twinops.onnx

MICROSOFT = {"domain": "com.microsoft"}
FLOAT = TensorProto.FLOAT


def constants(**values):
    types = {float: FLOAT, bool: TensorProto.BOOL}
    return [helper.make_tensor(n, types[type(v)], [], [v]) for n, v in values.items()]


def replaced(node, inputs, outputs, initializers=(), **more):
    model = model_of([node], inputs, outputs, initializers, more.pop("opset", 18))
    before = model.SerializeToString()
    made = twinops.onnx.replace(model, **more)
    assert model.SerializeToString() == before
    return made


def run(model, feeds):
    strict(model)
    return session(model).run(None, feeds)


def like(x, *names):
    return {name: (FLOAT, x.shape) for name in names}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax(op, axis, rng):
    x = rng.standard_normal([4, 9]).astype("f4")
    model = replaced(helper.make_node(op, ["x"], ["y"], axis=axis), {"x": x}, like(x, "y"))
    assert [n.domain for n in model.graph.node] == ["twinops"]
    ours = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}[op]
    core.assert_same(run(model, {"x": x})[0], core.run(ours, {"x": x}, {"axis": axis})["out"])


def test_softmax_that_flattens_stays(rng):
    x = rng.standard_normal([2, 3, 4]).astype("f4")
    left = []
    node = helper.make_node("Softmax", ["x"], ["y"], name="s")
    model = replaced(node, {"x": x}, like(x, "y"), opset=12, left=left)
    assert model.graph.node[0].domain == "" and left == [("s", left[0][1])] and "opset 13" in left[0][1]
    node = helper.make_node("Softmax", ["x"], ["y"], axis=2)
    assert replaced(node, {"x": x}, like(x, "y"), opset=12).graph.node[0].domain == "twinops"


@pytest.mark.parametrize("seed", [None, 7])
def test_dropout(seed, rng):
    x = rng.standard_normal([4, 9]).astype("f4")
    attributes = {} if seed is None else {"seed": seed}
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"], **attributes)
    model = replaced(node, {"x": x}, like(x, "y"), constants(ratio=0.25, training=True), seed=3)
    assert not model.graph.initializer
    drawn = {"p": 0.25, "seed": 3 if seed is None else seed, "subsequence": 1}
    core.assert_same(run(model, {"x": x})[0], core.run("dropout", {"x": x}, drawn)["y"])


def test_dropouts_draw_apart(rng):
    x = np.ones([4, 90], "f4")
    nodes = [helper.make_node("Dropout", ["x", "", "training"], [f"y{i}"]) for i in range(3)]
    model = model_of(nodes, {"x": x}, like(x, "y0", "y1", "y2"), constants(training=True))
    results = run(twinops.onnx.replace(model), {"x": x})
    assert len({y.tobytes() for y in results}) == 3


def test_what_cannot_be_known_stays(rng):
    x, left = rng.standard_normal([4, 9]).astype("f4"), []
    feeds = {"x": x, "ratio": np.array(0.5, "f4")}
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"], name="d")
    model = replaced(node, feeds, like(x, "y"), constants(training=True), left=left)
    assert model.graph.node[0].op_type == "Dropout" and left == [("d", "its ratio is not a constant")]
    node = helper.make_node("Dropout", ["x"], ["y"])
    assert replaced(node, {"x": x}, like(x, "y")).graph.node[0].op_type == "Dropout"
    node = helper.make_node("Dropout", ["x", "", "training"], ["y", "m"])
    outputs = {**like(x, "y"), "m": (TensorProto.BOOL, x.shape)}
    assert replaced(node, {"x": x}, outputs, constants(training=True)).graph.node[0].op_type == "Dropout"


def test_onnx_runtimes_bitmask_dropout_and_its_gradient(rng):
    x = rng.standard_normal([4, 9]).astype("f4")
    nodes = [
        helper.make_node("BitmaskDropout", ["x", "p", "t"], ["y", "m"], seed=5, **MICROSOFT),
        helper.make_node("BitmaskDropoutGrad", ["y", "m", "p", "t"], ["dx"], **MICROSOFT),
    ]
    outputs = {**like(x, "y", "dx"), "m": (TensorProto.UINT32, [2])}
    model = model_of(nodes, {"x": x}, outputs, constants(p=0.25, t=True))
    y, dx, mask = run(twinops.onnx.replace(model), {"x": x})
    expected = core.run("dropout", {"x": x}, {"p": 0.25, "seed": 5, "subsequence": 1})
    core.assert_same(y, expected["y"])
    core.assert_same(mask, expected["mask"])
    core.assert_same(dx, core.run("dropout_grad", {"dy": y, "mask": mask}, {"p": 0.25})["dx"])


@pytest.mark.parametrize("op", ["BitmaskBiasDropout", "BiasDropout"])
@pytest.mark.parametrize("residual", ["r", ""])
def test_onnx_runtimes_bias_dropout(op, residual, rng):
    x, bias = rng.standard_normal([4, 9]).astype("f4"), rng.standard_normal([9]).astype("f4")
    node = helper.make_node(op, ["x", "b", residual, "p", "t"], ["y"], seed=5, **MICROSOFT)
    feeds = {"x": x, "b": bias, **({"r": x} if residual else {})}
    model = replaced(node, feeds, like(x, "y"), constants(p=0.25, t=True))
    inputs = {"x": x, "bias": bias, "residual": x if residual else None}
    attributes = {"p": 0.25, "seed": 5, "subsequence": 1}
    expected = core.run("bias_dropout_residual", inputs, attributes)["y"]
    core.assert_same(run(model, feeds)[0], expected)


@pytest.mark.parametrize("bias", [[2, 1, 1, 7], [1, 1, 5, 7], [5, 7]])
def test_onnx_runtimes_bias_softmax(bias, rng):
    x, bias = rng.standard_normal([2, 3, 5, 7]).astype("f4"), rng.standard_normal(bias).astype("f4")
    node = helper.make_node("BiasSoftmax", ["x", "b"], ["y"], axis=3, is_inner_broadcast=1, **MICROSOFT)
    model = replaced(node, {"x": x, "b": bias}, like(x, "y"))
    core.assert_same(run(model, {"x": x, "b": bias})[0], core.run("softmax", {"x": x, "mask": bias})["out"])


def test_onnx_runtimes_bias_softmax_dropout(rng):
    x, bias = rng.standard_normal([2, 3, 5, 7]).astype("f4"), rng.standard_normal([5, 7]).astype("f4")
    node = helper.make_node("BiasSoftmaxDropout", ["x", "b", "p"], ["y", "", "s"], axis=3, seed=5, **MICROSOFT)
    model = replaced(node, {"x": x, "b": bias}, like(x, "y", "s"), constants(p=0.25))
    y, s = run(model, {"x": x, "b": bias})
    expected = core.run("softmax_dropout", {"x": x, "mask": bias}, {"p": 0.25, "seed": 5, "subsequence": 1})
    core.assert_same(y, expected["y"])
    core.assert_same(s, expected["probabilities"])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_onnx_runtimes_softmax_gradients(op, rng):
    y, dy = (rng.standard_normal([4, 9]).astype("f4") for _ in range(2))
    node = helper.make_node(f"{op}Grad_13", ["dy", "y"], ["dx"], axis=0, **MICROSOFT)
    model = replaced(node, {"dy": dy, "y": y}, like(y, "dx"))
    ours = {"Softmax": "softmax_grad", "LogSoftmax": "log_softmax_grad"}[op]
    core.assert_same(run(model, {"dy": dy, "y": y})[0], core.run(ours, {"y": y, "dy": dy}, {"axis": 0})["dx"])


def test_graphs_inside_nodes(rng):
    x = rng.standard_normal([4, 9]).astype("f4")

    def branch(op):
        output = helper.make_tensor_value_info("y", FLOAT, x.shape)
        return helper.make_graph([helper.make_node(op, ["x"], ["y"])], op, [], [output])

    node = helper.make_node(
        "If", ["c"], ["z"], then_branch=branch("Softmax"), else_branch=branch("LogSoftmax")
    )
    feeds = {"x": x, "c": np.array(True)}
    model = replaced(node, feeds, like(x, "z"))
    core.assert_same(run(model, feeds)[0], core.run("softmax", {"x": x})["out"])
    feeds["c"] = np.array(False)
    core.assert_same(run(model, feeds)[0], core.run("log_softmax", {"x": x})["out"])


def branch(nodes, x):
    """A branch of If that gives z."""
    output = helper.make_tensor_value_info("z", FLOAT, x.shape)
    return helper.make_graph(nodes, "branch", [], [output])


def in_an_if(inner, outer=()):
    """A model of the nodes `outer`, which give y, and of an If with the nodes `inner`, which give z."""
    x = np.ones([4, 90], "f4")
    other = branch([helper.make_node("Identity", ["x"], ["z"])], x)
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch(inner, x), else_branch=other)
    feeds = {"x": x, "c": np.array(True)}
    outputs = like(x, "z", "y") if outer else like(x, "z")
    return model_of([*outer, node], feeds, outputs, constants(ratio=0.5, training=True)), feeds


def test_dropouts_inside_nodes_draw_apart_too():
    drop = lambda y: helper.make_node("Dropout", ["x", "ratio", "training"], [y])  # noqa: E731
    model, feeds = in_an_if([drop("z")], [drop("y")])
    left = []
    model = twinops.onnx.replace(model, left=left)
    assert left == [] and len(model.graph.initializer) == 0
    z, y = run(model, feeds)
    assert (z == 0).any() and (y == 0).any() and (z != y).any()


def test_a_mask_that_a_graph_inside_reads_is_made():
    drop = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "kept"])
    read = helper.make_node("Where", ["kept", "x", "x"], ["z"])
    model, _ = in_an_if([read], [drop])
    assert twinops.onnx.replace(model).graph.node[0].op_type == "Dropout"


def test_a_default_that_a_run_may_override_is_no_constant(rng):
    x, left = rng.standard_normal([4, 9]).astype("f4"), []
    feeds = {"x": x, "ratio": np.array(0.5, "f4")}
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"], name="d")
    model = replaced(node, feeds, like(x, "y"), constants(ratio=0.5, training=True), left=left)
    assert left == [("d", "its ratio is not a constant")]
    assert [i.name for i in model.graph.input] == ["x", "ratio"]


def test_a_constant_may_be_a_node(rng):
    x = rng.standard_normal([4, 9]).astype("f4")
    ratio = helper.make_node("Constant", [], ["ratio"], value_float=0.25)
    drop = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])
    model = model_of([ratio, drop], {"x": x}, like(x, "y"), constants(training=True))
    model = twinops.onnx.replace(model)
    assert [n.op_type for n in model.graph.node] == ["dropout"]
    core.assert_same(run(model, {"x": x})[0], core.run("dropout", {"x": x}, {"p": 0.25, "subsequence": 1})["y"])


def test_nodes_of_functions_are_named(rng):
    x, left = rng.standard_normal([4, 9]).astype("f4"), []
    softmax = helper.make_node("Softmax", ["a"], ["b"], name="s")
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("mine", "F", ["a"], ["b"], [softmax], opsets)
    model = model_of([helper.make_node("F", ["x"], ["y"], domain="mine")], {"x": x}, like(x, "y"))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    twinops.onnx.replace(model, left=left)
    assert left == [("s", left[0][1])]
    inlined = twinops.onnx.replace(onnx.inliner.inline_local_functions(model))
    assert [n.domain for n in inlined.graph.node] == ["twinops"]


def test_a_model_with_nothing_to_replace_is_the_same(rng):
    x = rng.standard_normal([4, 9]).astype("f4")
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, like(x, "y"))
    assert twinops.onnx.replace(model).graph == model.graph
