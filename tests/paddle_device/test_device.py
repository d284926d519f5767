"""The plugin on a custom device of Paddle's, "twindev": over the host's memory, with streams that do
their work later, or over a GPU's (README.md). What is computed there has the bits of the CPU; only
twinops' operators and copies are on the device, everything else of Paddle's stays on the CPU."""

import ctypes
import gc
import os
import pathlib
import subprocess
import sys

import numpy as np
import paddle
import pytest

MEMORY = os.environ.get("TWINDEV_MEMORY", "cpu")  # "cuda" on a GPU
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "paddle"))

import twinops.paddle as tp  # noqa: E402
from tensors import FORWARD, TYPES, sample  # noqa: E402

tp.serve_device("twindev", MEMORY)
F = tp.functional
PLACE = paddle.CustomPlace("twindev", 0)
CPU = paddle.CPUPlace()


@pytest.fixture(autouse=True)
def on_the_cpu():
    paddle.set_device("cpu")
    paddle.seed(7)


def moved(value, place):
    if isinstance(value, list):
        return [moved(v, place) for v in value]
    if not isinstance(value, paddle.Tensor):
        return value
    copy = paddle.to_tensor(value.numpy(), dtype=value.dtype, place=place)
    copy.stop_gradient = value.stop_gradient
    return copy


class _At(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x, place):
        ctx.place = x.place
        return x._copy_to(place, True)

    @staticmethod
    def backward(ctx, dy):
        return dy._copy_to(ctx.place, True)


def at(x, place):
    """x on the place, with x's history: a copy that Paddle's _copy_to makes has none."""
    return _At.apply(x, place)


def bits(tensor):
    assert isinstance(tensor, paddle.Tensor)
    return np.ascontiguousarray(tensor.numpy()).view(np.uint8)


def assert_same_bits(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert np.array_equal(bits(a), bits(b))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", FORWARD)
def test_forward_has_the_bits_of_the_cpu(op, dtype):
    results = []
    for place in (CPU, PLACE):
        inputs, attributes = sample(op, np.random.default_rng(3), dtype)
        inputs = {name: moved(value, place) for name, value in inputs.items()}
        results.append(tp.run(op, inputs, attributes))
        if place is PLACE:
            assert all("twindev" in str(t.place) for t in results[1])
    assert_same_bits(*results[::-1])


GRADIENTS = [n for n in FORWARD if n in (
    "softmax", "log_softmax", "dropout", "bias_dropout_residual", "softmax_dropout",
    "random_projection",
)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", GRADIENTS)
def test_backward_has_the_bits_of_the_cpu(op, dtype):
    results = []
    for place in (CPU, PLACE):
        rng = np.random.default_rng(3)
        inputs, attributes = sample(op, rng, dtype)
        inputs = {name: moved(value, place) for name, value in inputs.items()}
        for tensor in inputs.values():
            tensor.stop_gradient = not tensor.is_floating_point() or (
                tensor is inputs.get("mask")
            )
        y = tp.run(op, inputs, attributes)[0]
        dy = paddle.to_tensor(rng.standard_normal(y.shape)).astype(dtype)
        y.backward(moved(dy, place))
        results.append([t.grad for t in inputs.values() if not t.stop_gradient])
    assert results[0]
    assert_same_bits(*results[::-1])


@pytest.mark.parametrize("op", ["softmax", "bias_dropout_residual"])
def test_auto_cast_rounds_no_gradient(op):
    """It converts what operators of Paddle's are given, on devices alone; ours are given what they had."""
    results = []
    paddle.set_device("twindev")
    for enable in (False, True):
        x = moved(paddle.to_tensor([[1.0, 2.0, 4.0]]), PLACE)
        x.stop_gradient = False
        with paddle.amp.auto_cast(enable, level="O2", dtype="float16", custom_white_list={"transpose", "stack"}):
            y = F.softmax(x) if op == "softmax" else F.bias_dropout_residual(x, residual=x, p=0.0)
        assert y.dtype == paddle.float32
        y.backward(moved(paddle.to_tensor([[1.0 + 2**-20, 3.0, 5.0]]), PLACE))
        results.append([x.grad])
    assert_same_bits(*results)


@pytest.mark.parametrize("shape", [[1], [3, 1000], [64, 4097], [1024, 1024]])
def test_masks_are_equal(shape):
    masks = []
    for place in (CPU, PLACE):
        paddle.seed(11)
        x = moved(paddle.ones(shape), place)
        masks.append([F.dropout(x, 0.3), *F.bitmask_dropout(x, 0.5), F.softmax_dropout(x, 0.1)])
    assert_same_bits(*masks[::-1])


def test_calls_see_what_the_stream_did_before(rng=np.random.default_rng(5)):
    """Copies are on the stream; a call that did not mind it would read what was there before."""
    for _ in range(20):
        array = rng.standard_normal([33, 257]).astype("float32")
        x = paddle.to_tensor(array, place=CPU)
        y = F.softmax(F.softmax(moved(x, PLACE)))
        assert np.array_equal(bits(y), bits(F.softmax(F.softmax(x))))


def test_loss_scaling():
    results = []
    for place in (CPU, PLACE):
        rng = np.random.default_rng(4)
        xs = [moved(paddle.to_tensor(rng.standard_normal([n]).astype("float32")), place)
              for n in (5, 70, 3000)]
        state = [moved(paddle.full([1], v, t), place)
                 for v, t in ((1024.0, "float32"), (3, "int32"), (0, "int32"))]
        xs, found = F.check_finite_and_unscale(xs, state[0])
        F.update_loss_scaling(xs, found, *state, 4, 1, 2.0, 0.5)
        results.append([*xs, found, *state])
    assert_same_bits(*results[::-1])
    assert results[1][4].item() == 2048.0


class Classifier(paddle.nn.Layer):
    """Matrix products on the CPU; softmax and dropout where `place` says."""

    def __init__(self, place):
        super().__init__()
        self.first, self.second = paddle.nn.Linear(64, 96), paddle.nn.Linear(96, 10)
        self.place = place

    def forward(self, x):
        h = at(F.softmax_dropout(at(self.first(x), self.place), 0.2), CPU)
        h = at(F.dropout(at(h * 50, self.place), 0.3), CPU)
        return at(F.log_softmax(at(self.second(h), self.place)), CPU)


def digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.data / 16).astype("float32"), data.target.astype("int64")


def losses(place, steps=40):
    images, labels = digits()
    paddle.seed(3)
    model = Classifier(place)
    optimizer = paddle.optimizer.SGD(0.5, parameters=model.parameters())
    found = []
    for step in range(steps):
        some = np.arange(step * 64, step * 64 + 64) % len(images)
        y = model(paddle.to_tensor(images[some]))
        chosen = paddle.nn.functional.one_hot(paddle.to_tensor(labels[some]), 10)
        loss = -(y * chosen).sum() / 64
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append(loss.item())
    return found


def test_digits_have_the_losses_of_the_cpu():
    pytest.importorskip("sklearn")
    found, expected = losses(PLACE), losses(CPU)
    assert found == expected and expected[-1] < expected[0]


def test_memory_is_returned():
    """Whatever is on the device lives as long as its tensors: 200 runs take no more than 20."""

    def run(times):
        for _ in range(times):
            x = moved(paddle.ones([256, 1024]), PLACE)
            x.stop_gradient = False
            F.dropout(F.softmax(x), 0.5).backward(moved(paddle.ones([256, 1024]), PLACE))
        gc.collect()
        return device().twindev_bytes()

    assert run(20) >= run(200)


def device():
    root = pathlib.Path(os.environ["CUSTOM_DEVICE_ROOT"])
    library = ctypes.CDLL(str(next(root.glob("*.so"))))
    library.twindev_waits.restype = library.twindev_bytes.restype = ctypes.c_long
    return library


@pytest.mark.skipif(MEMORY != "cuda", reason="the host's memory: a CPU kernel must wait for the stream")
def test_nothing_of_ours_waits():
    x, dy = (moved(paddle.ones([64, 1024]), PLACE) for _ in range(2))
    x.stop_gradient = False

    waits = []
    for _ in range(10):
        (gradient,) = paddle.grad(F.dropout(F.softmax(x), 0.5), x, dy)
        waits.append(device().twindev_waits())
    assert gradient.shape == x.shape and waits[0] == waits[-1]


UNKNOWN = """
import paddle, twinops.paddle as tp
x = paddle.to_tensor([1.0, 2.0], place=paddle.CustomPlace("twindev", 0))
try:
    tp.functional.softmax(x)
except ValueError as error:
    print("refused:", error)
"""


def test_a_device_that_nobody_spoke_of_is_refused():
    out = subprocess.run([sys.executable, "-c", UNKNOWN], capture_output=True, text=True, check=True)
    assert 'refused: twinops does not know the memory of Paddle\'s device "twindev"' in out.stdout
    assert "serve_device" in out.stdout
    with pytest.raises(ValueError, match="'cuda' or 'cpu'"):
        tp.serve_device("twindev", "gpu")


# In a process of its own: an operator of Paddle's own that writes to a GPU's memory as if it were the
# host's ends the process. Without a dropout: the `assign` by which a program moves its offset on fails
# in Paddle's executor on a device that has no kernel of its own for it.
STATIC = """
import sys, hashlib, numpy as np, paddle
memory, device = sys.argv[1:]
paddle.set_device(device)
import twinops.paddle as tp
tp.serve_device("twindev", memory)
paddle.seed(5)
net = paddle.nn.Sequential(tp.Softmax(), tp.LogSoftmax(), tp.Softmax(0))
net = paddle.jit.to_static(net, full_graph=True)
array = np.random.default_rng(1).standard_normal([40, 200]).astype("float32")
x = paddle.to_tensor(array)
with paddle.no_grad():
    for _ in range(3):
        y = net(x)
        print("bits", str(y.place).replace(" ", ""), hashlib.sha256(y.numpy().tobytes()).hexdigest())
"""


def test_a_program_has_the_bits_of_the_cpu():
    runs = []
    for where in ("cpu", "twindev:0"):
        command = [sys.executable, "-c", STATIC, MEMORY, where]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-3000:]
        runs.append([line.split() for line in run.stdout.splitlines() if line.startswith("bits")])
    assert [r[-1] for r in runs[0]] == [r[-1] for r in runs[1]] and len(runs[0]) == 3
    assert all("twindev" in r[1] for r in runs[1])
