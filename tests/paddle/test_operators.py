"""The plugin itself: every operator of the table is there, and gives the bits of the C++ core called
directly, forward and backward; what is refused, and how."""

import core
import numpy as np
import paddle
import pytest
from tensors import FORWARD, TYPES, sample

import twinops.paddle as tp
from twinops import _outputs, operators
from twinops.paddle import _plugin


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def native(tensor):
    """An array of its own with the tensor's bits; bfloat16 is uint16, and words are unsigned."""
    return np.array(tensor.numpy(), order="C")


def as_words(array, op, name):
    """int32 of Paddle's as the uint32 that it stands for."""
    argument = next(a for a in operators()[op].arguments if a.name == name)
    words = "mask" in argument.name or op == "philox_words"
    return array.view(np.uint32) if words and array.dtype == np.int32 else array


def blank(array):
    out = np.empty_like(array)
    bits(out)[...] = 0xCA
    return out


def attributes_of(op, attributes):
    """With the types that the table gives them, and without the plugin's own."""
    defaults = operators()[op].attributes
    return {n: type(defaults[n])(v) for n, v in attributes.items() if n in defaults}


def numpy_inputs(inputs):
    lists = {k: v if isinstance(v, list) else [v] for k, v in inputs.items() if k != "like"}
    return {k: [native(t) for t in v] for k, v in lists.items()}


def outputs_of(op, tensors):
    """The list that `run` gives, as name -> list of tensors."""
    names = [a for a in operators()[op].arguments if a.is_output]
    lists = len(tensors) - (len(names) - 1)
    found, at = {}, 0
    for a in names:
        n = lists if a.is_list else 1
        found[a.name] = tensors[at : at + n]
        at += n
    return found


def assert_same_bits(ours, expected, what):
    assert ours.shape == expected.shape, what
    different = np.flatnonzero(bits(ours) != bits(expected))
    assert different.size == 0, f"{what}: byte {different[0]} of {bits(ours).size} differs"


def test_every_operator_is_registered():
    assert _plugin.expected() == _plugin.registered()
    assert len(FORWARD) >= 8
    for name in operators():
        base = name.removesuffix("_grad")
        assert name in FORWARD or base in FORWARD


def calls(names):
    """Each with what its sample has, and those whose samples have masks of all kinds without any."""
    return [(op, False) for op in names] + [("softmax", True), ("log_softmax", True)]


def call_of(op, alone, rng, dtype):
    inputs, attributes = sample(op, rng, dtype)
    return ({"x": inputs["x"]}, {}) if alone else (inputs, attributes)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op, alone", calls(FORWARD))
def test_forward_gives_the_bits_of_the_core(op, alone, dtype, rng):
    inputs, attributes = call_of(op, alone, rng, dtype)
    arrays = numpy_inputs(inputs)  # before the call: some operators write in place
    results = outputs_of(op, tp.run(op, inputs, attributes))
    expected = {
        name: [blank(as_words(native(t), op, name)) for t in tensors]
        for name, tensors in results.items()
    }
    core.run(op, {**arrays, **expected}, attributes_of(op, attributes), dtype == "bfloat16")
    for name, tensors in results.items():
        for ours, theirs in zip(tensors, expected[name]):
            assert_same_bits(native(ours), theirs, f"{op}: {name}")


GRADIENTS = [n for n in FORWARD if n + "_grad" in operators()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op, alone", calls(GRADIENTS))
def test_backward_gives_the_bits_of_the_core(op, alone, dtype, rng):
    inputs, attributes = call_of(op, alone, rng, dtype)
    for tensor in inputs.values():
        tensor.stop_gradient = not tensor.is_floating_point()
    results = outputs_of(op, tp.run(op, inputs, attributes))
    first = next(iter(results))
    y = results[first][0]
    dy = paddle.to_tensor(rng.standard_normal(y.shape)).astype(dtype)
    y.backward(dy)
    grad = op + "_grad"
    given = {**numpy_inputs(inputs), "y": [native(y)], "dy": [native(dy)], f"d{first}": [native(dy)]}
    for name, tensors in results.items():
        given.setdefault(name, [as_words(native(t), op, name) for t in tensors])
    arguments, checked = {}, []
    for a in operators()[grad].arguments:
        if not a.is_output and a.name in given:
            arguments[a.name] = given[a.name]
        elif a.is_output and a.name[1:] in inputs and not inputs[a.name[1:]].stop_gradient:
            checked.append(a.name[1:])
            arguments[a.name] = [blank(native(inputs[a.name[1:]].grad))]
    shared = {k: v for k, v in attributes.items() if k in operators()[grad].attributes}
    if not _outputs.needs_masks(op, not set(_outputs.MASKS).isdisjoint(checked)):
        arguments = {k: v for k, v in arguments.items() if k not in _outputs.MASKS}
        shared = {k: v for k, v in shared.items() if k not in _outputs.CAUSAL}
    core.run(grad, arguments, attributes_of(grad, shared), dtype == "bfloat16")
    assert "x" in checked
    for name in checked:
        ours = native(inputs[name].grad)
        assert_same_bits(ours, arguments["d" + name][0], f"{op}: gradient of {name}")


def test_a_residual_has_the_gradient_of_the_output(rng):
    inputs, attributes = sample("bias_dropout_residual", rng, "float32")
    inputs["residual"].stop_gradient = False
    y = tp.run("bias_dropout_residual", inputs, attributes)[0]
    dy = paddle.to_tensor(rng.standard_normal(y.shape)).astype("float32")
    y.backward(dy)
    assert_same_bits(native(inputs["residual"].grad), native(dy), "residual")


@pytest.mark.parametrize("present", [(), ("bias",), ("residual",), ("bias", "residual")])
def test_optional_inputs_may_be_left_out(present, rng):
    inputs, attributes = sample("bias_dropout_residual", rng, "float32")
    inputs = {k: v for k, v in inputs.items() if k == "x" or k in present}
    for tensor in inputs.values():
        tensor.stop_gradient = False
    y = tp.run("bias_dropout_residual", inputs, {**attributes, "training": False})[0]
    y.sum().backward()
    assert np.array_equal(y.numpy(), sum(t.numpy() for t in inputs.values()))
    assert np.array_equal(inputs["x"].grad.numpy(), np.ones([6, 41], "float32"))
    if "bias" in present:
        assert np.array_equal(inputs["bias"].grad.numpy(), np.full([41], 6, "float32"))


@pytest.mark.parametrize("mask_type", ["", "bool", "uint8", "uint32"])
def test_every_kind_of_mask_gives_the_same_gradient(mask_type, rng):
    def gradient(kind):
        inputs, attributes = sample("dropout", np.random.default_rng(1), "float32")
        inputs["x"].stop_gradient = False
        y, mask = tp.run("dropout", inputs, {**attributes, "mask_type": kind})
        y.sum().backward()
        return inputs["x"].grad.numpy(), mask

    expected, _ = gradient("bool")
    ours, mask = gradient(mask_type)
    assert np.array_equal(ours, expected)
    assert mask.shape == {"": [0], "uint32": [8]}.get(mask_type, [6, 41])


def test_strides_change_no_bit(rng):
    x = paddle.to_tensor(rng.standard_normal([5, 7, 3]).astype("float32"))
    t = x.transpose([2, 0, 1])
    ours = tp.run("softmax", {"x": t}, {"axis": 1})[0].numpy()
    copy = tp.run("softmax", {"x": paddle.to_tensor(t.numpy())}, {"axis": 1})[0].numpy()
    assert np.array_equal(ours, copy)


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "dropout"])
@pytest.mark.parametrize("shape", [[0], [0, 4], [3, 0, 2]])
def test_a_tensor_without_elements_is_work_done(op, shape):
    x = paddle.zeros(shape)
    x.stop_gradient = False
    y = tp.run(op, {"x": x})[0]
    assert y.shape == shape
    y.sum().backward()
    assert x.grad is None or x.grad.shape == shape


def test_an_empty_list_is_work_done():
    xs, found = tp.functional.check_finite_and_unscale([], paddle.full([1], 2.0))
    assert xs == [] and not found.item()


REFUSED = [
    ("softmax", {"x": ([2, 2], "int32")}, {}, ValueError, "softmax: x: expected float16"),
    ("softmax", {"x": ([2, 2],)}, {"axis": 2}, ValueError, "axis: expected -2 to 1; got 2"),
    ("dropout", {"x": ([2],)}, {"p": 1.5}, ValueError, "probability in \\[0, 1\\]"),
    ("dropout", {"x": ([2],)}, {"offset": 2}, ValueError, "multiple of 4"),
    ("dropout", {"x": ([2],)}, {"mask_type": "float32"}, ValueError, 'mask_type: .* got "float32"'),
    ("softmax", {"x": ([2], "complex64")}, {}, ValueError, "complex64"),
    ("softmax", {"x": None}, {}, TypeError, "softmax: x: expected a tensor; got None"),
    ("softmax", {"x": [1.0, 2.0]}, {}, TypeError, "softmax: x: expected a tensor; got list"),
    ("softmax", {"x": ([2],)}, {"axis": "a"}, TypeError, "axis: expected an int; got str"),
    ("softmax", {"x": ([2],)}, {"scale": None}, TypeError, "scale: expected a float; got None"),
    ("softmax", {"x": ([2],)}, {"axes": 0}, TypeError, "twinops_softmax has no axes; its inputs are x"),
    ("softmix", {"x": ([2],)}, {}, ValueError, "twinops has no operator 'softmix'; it has .*softmax"),
]


@pytest.mark.parametrize("op, inputs, attributes, error, message", REFUSED)
def test_what_is_refused_is_raised_as_paddle_does(op, inputs, attributes, error, message):
    made = {k: paddle.ones(*v) if isinstance(v, tuple) else v for k, v in inputs.items()}
    with pytest.raises(error, match=message):
        tp.run(op, made, attributes)


def test_a_program_raises_the_same():
    @paddle.jit.to_static(full_graph=True)
    def softmax(x):
        return tp.functional.softmax(x, 2)

    with pytest.raises(ValueError, match="axis: expected -2 to 1; got 2"):
        softmax(paddle.ones([2, 2]))


@pytest.mark.parametrize("f", [paddle.nn.functional.softmax, tp.functional.softmax])
def test_an_axis_out_of_range_is_a_value_error(f):
    with pytest.raises(ValueError):
        f(paddle.ones([2, 3]), axis=2)


def test_what_is_refused_is_not_written(rng):
    xs = [paddle.ones([3]), paddle.ones([3], "int32")]
    with pytest.raises(ValueError, match="check_finite_and_unscale: x\\[1\\]"):
        tp.functional.check_finite_and_unscale(xs, paddle.full([1], 2.0))
    assert xs[0].tolist() == [1, 1, 1]
