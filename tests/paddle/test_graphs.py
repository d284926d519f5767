"""Static graphs: to_static by syntax tree and by bytecode, programs of the user's, and programs that
are saved, loaded and run for inference."""

import gc
import os
import subprocess
import sys
import types

import numpy as np
import paddle
import pytest
from paddle.static import InputSpec

import twinops.paddle as tp
from twinops import _outputs

F = tp.functional


class Net(paddle.nn.Layer):
    """Every function that has a place in a network."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p
        self.linear = paddle.nn.Linear(8, 8)
        self.dropout = tp.Dropout(p)
        self.softmax = tp.Softmax()

    def forward(self, x):
        h = self.dropout(self.linear(x))
        h = F.fused_dropout_add(h, x, self.p, self.training)
        h = F.bias_dropout_residual(h, self.linear.bias, None, self.p, self.training)
        h = h + F.softmax_dropout(h, self.p, training=self.training, causal=True)
        image = F.dropout2d(h.reshape([-1, 8, 1, 1]), self.p, self.training)
        return F.log_softmax(h) + self.softmax(image.reshape([-1, 8]))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("full_graph", [True, False])
def test_a_traced_network_gives_the_bits_of_the_eager_one(full_graph, training, rng):
    net, traced = Net(0.0), paddle.jit.to_static(Net(0.0), full_graph=full_graph)
    traced.set_state_dict(net.state_dict())
    for n in (net, traced):
        n.train() if training else n.eval()
    for rows in (3, 5):
        array = rng.standard_normal([rows, 8]).astype("float32")
        x = paddle.to_tensor(array, stop_gradient=False)
        t = paddle.to_tensor(array, stop_gradient=False)
        net.clear_gradients()
        traced.clear_gradients()
        y, z = net(x), traced(t)
        assert np.array_equal(y.numpy(), z.numpy())
        if training:  # Paddle's traced networks have no backward pass otherwise
            y.sum().backward()
            z.sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-6, atol=1e-7)
            for a, b in zip(net.parameters(), traced.parameters()):
                np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("full_graph", [True, False])
def test_every_run_of_a_traced_function_draws_anew(full_graph):
    @paddle.jit.to_static(full_graph=full_graph)
    def f(x):
        return F.dropout(x, 0.5), F.dropout(x, 0.5)

    def runs():
        x = paddle.ones([64])
        return [y.numpy() for _ in range(3) for y in f(x)]

    runs()  # traced
    paddle.seed(8)
    first = runs()
    for i in range(len(first)):
        for k in range(i):
            assert not np.array_equal(first[i], first[k]), (i, k)
    paddle.seed(8)
    for a, b in zip(first, runs()):
        assert np.array_equal(a, b)


def test_the_backward_pass_of_a_traced_dropout_has_its_mask():
    @paddle.jit.to_static(full_graph=True)
    def f(x):
        return F.dropout(x, 0.5, mask=None), F.dropout(x, 0.5)

    for _ in range(3):
        for which in (0, 1):
            x = paddle.ones([64])
            x.stop_gradient = False
            y = f(x)[which]
            y.sum().backward()
            assert np.array_equal(x.grad.numpy(), y.numpy())


def test_unknown_dimensions(rng):
    @paddle.jit.to_static(full_graph=True, input_spec=[InputSpec([None, None], "float32")])
    def f(x):
        return F.softmax(x, 0), F.dropout(x, 0.5)

    for shape in ([3, 4], [5, 2]):
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
        softmax, dropped = f(x)
        assert np.array_equal(softmax.numpy(), F.softmax(x, 0).numpy())
        kept = dropped.numpy() != 0
        assert np.array_equal(dropped.numpy()[kept], 2 * x.numpy()[kept])


def test_a_dropout_in_a_loop_draws_anew_each_time():
    @paddle.jit.to_static(full_graph=True)
    def f(n):
        i = paddle.zeros([1], "int64")
        kept = paddle.zeros([256])
        while i < n:
            kept = kept + F.dropout(paddle.ones([256]), 0.5)
            i = i + 1
        return kept

    # The same mask four times would give 0 and 8 only.
    assert len(np.unique(f(paddle.full([1], 4, "int64")).numpy())) > 2


def exact_numbers(rng, shape):
    """Numbers whose products and sums float32 holds: then every library's matrix product is the same."""
    return rng.integers(-16, 17, shape).astype("float32") / 8


@pytest.fixture
def saved(tmp_path, rng):
    net = Net()
    net.eval()
    for parameter in net.linear.parameters():
        parameter.set_value(exact_numbers(rng, parameter.shape))
    path = str(tmp_path / "net")
    paddle.jit.save(net, path, input_spec=[InputSpec([None, 8], "float32")])
    return net, path


def test_a_saved_program_is_loaded(saved, rng):
    net, path = saved
    loaded = paddle.jit.load(path)
    x = paddle.to_tensor(exact_numbers(rng, [4, 8]))
    assert np.array_equal(loaded(x).numpy(), net(x).numpy())


RUN_SAVED = """
import sys, numpy as np, paddle, twinops.paddle
from paddle import inference
path, x, y = sys.argv[1], np.load(sys.argv[2]), sys.argv[3]
predictor = inference.create_predictor(inference.Config(path + ".json", path + ".pdiparams"))
predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(x)
predictor.run()
np.save(y, predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu())
"""


def test_a_saved_program_runs_in_another_process(saved, tmp_path, rng):
    net, path = saved
    x = exact_numbers(rng, [4, 8])
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", RUN_SAVED, path, tmp_path / "x.npy", tmp_path / "y.npy"]
    subprocess.run(command, check=True, env=dict(os.environ, GLOG_minloglevel="2"))
    assert np.array_equal(np.load(tmp_path / "y.npy"), net(paddle.to_tensor(x)).numpy())


class Dropped(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(8, 8)
        self.dropout = tp.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.linear(x) * 0 + 1)


def dropped_function(x):
    return F.dropout(x, 0.5)


def masks(f, n=2):
    return [f(paddle.ones([4, 8])).numpy() for _ in range(n)]


SPEC = [InputSpec([None, 8], "float32")]


@pytest.mark.parametrize("given", ["a layer", "a traced layer", "without a spec", "a function"])
def test_a_network_in_train_mode_is_saved(given, tmp_path):
    if given == "a function":
        net = paddle.jit.to_static(dropped_function, full_graph=True, input_spec=SPEC)
    else:
        net = Dropped() if given == "a layer" else paddle.jit.to_static(Dropped(), full_graph=True)
    if given in ("a traced layer", "without a spec"):
        net(paddle.ones([4, 8]))
    spec = SPEC if given in ("a layer", "a traced layer") else None
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=spec)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    loaded.train()
    paddle.seed(3)
    first, second = masks(loaded)
    assert set(np.unique(first)) == {0, 2} and not np.array_equal(first, second)
    paddle.seed(3)
    assert np.array_equal(masks(loaded)[1], second)
    if given != "a layer":  # what was traced before goes on as it did
        paddle.seed(4)
        first, second = masks(net)
        paddle.seed(4)
        assert np.array_equal(masks(net)[1], second) and not np.array_equal(first, second)


def test_what_a_program_draws_does_not_depend_on_what_was_traced_before():
    def draws():
        paddle.seed(5)
        return masks(paddle.jit.to_static(Dropped(), full_graph=True))

    first = draws()
    paddle.jit.to_static(Net(), full_graph=True)(paddle.ones([3, 8]))
    for a, b in zip(first, draws()):
        assert np.array_equal(a, b)


RESUMED = """
import sys, numpy as np, paddle, twinops.paddle as tp
paddle.seed(3)
net = paddle.nn.Sequential(paddle.nn.Linear(8, 8), tp.Dropout(0.5), paddle.nn.Linear(8, 8), tp.Dropout(0.3))
traced = paddle.jit.to_static(net, full_graph=True)
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
path, resume = sys.argv[1], sys.argv[2] == "resume"
if resume:  # other batches were traced before
    traced(paddle.ones([2, 8]))
    paddle.jit.to_static(paddle.nn.Sequential(tp.Dropout(0.5)), full_graph=True)(paddle.ones([2, 8]))
    state = paddle.load(path)
    net.set_state_dict(state["net"])
    tp.default_generator().set_state_dict(state["random"])
for step in range(6):
    if step == 3 and not resume:
        paddle.save({"net": net.state_dict(), "random": tp.default_generator().state_dict()}, path)
    if step < 3 and resume:
        continue
    loss = traced(paddle.ones([4, 8])).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if step >= 3:
        print("loss", loss.numpy().tobytes().hex())
"""


def test_a_traced_training_is_resumed_to_the_bit(tmp_path):
    runs = []
    for how in ("begin", "resume"):
        command = [sys.executable, "-c", RESUMED, str(tmp_path / "state"), how]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        runs.append([line for line in out.splitlines() if line.startswith("loss")])
    assert len(runs[0]) == 3 and runs[0] == runs[1]


STATIC = """
import numpy as np, paddle, twinops.paddle as tp
paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [None, 16], "float32")
    weight = paddle.static.create_parameter([16, 16], "float32")
    dropped = tp.functional.dropout(paddle.matmul(x, weight) * 0 + 1, 0.5)
    loss = tp.functional.softmax(dropped + weight[:1]).square().mean()
    paddle.optimizer.SGD(1.0).minimize(loss)
executor = paddle.static.Executor()
executor.run(startup)
feed = {"x": np.ones([4, 16], "float32")}
runs = [executor.run(main, feed=feed, fetch_list=[dropped, loss]) for _ in range(3)]
assert not np.array_equal(runs[0][0], runs[1][0])
assert not np.array_equal(runs[1][0], runs[2][0])
assert set(np.unique(runs[0][0])) == {0.0, 2.0}
assert runs[0][1] != runs[2][1]
print("static graph trained")
"""


def test_a_static_graph_of_the_users():
    run = [sys.executable, "-c", STATIC]
    assert "static graph trained" in subprocess.run(
        run, check=True, capture_output=True, text=True
    ).stdout


MASKS = """
import paddle, twinops.paddle as tp
paddle.enable_static()
for op in ("softmax", "log_softmax", "softmax_dropout"):
    for kind, wanted in (("bool", False), ("float32", False), ("float32", True)):
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            x, mask = paddle.static.data("x", [2, 3], "float32"), paddle.static.data("mask", [2, 3], kind)
            x.stop_gradient, mask.stop_gradient = False, not wanted
            y = getattr(tp.functional, op)(x, mask=mask)
            paddle.static.gradients([y.sum()], [x, mask] if wanted else [x])
        (gradient,) = (o for o in program.global_block().ops if "_grad" in o.name() and "twinops" in o.name())
        given = [v for v in gradient.operands_source() if v.initialized()]
        print(op, kind, "wanted" if wanted else "fixed", any(v.is_same(mask) for v in given), sep=",")
"""


def test_a_gradient_in_a_program_reads_the_masks_that_an_eager_one_reads():
    run = [sys.executable, "-c", MASKS]
    out = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    found = [line.split(",") for line in out.splitlines() if "," in line]
    assert len(found) == 9
    for op, kind, wanted, read in found:
        expected = _outputs.needs_masks(op, wanted == "wanted")
        assert read == str(expected), f"{op} under a mask of {kind}, {wanted}"


def test_paddles_list_of_values_is_gone_when_its_caller_is():
    """What conftest.py sees to: a function that lives on in a cell would keep references into a dead program."""
    from paddle.jit.dy2static.pir_partial_program import RunnableProgram

    f = paddle.jit.to_static(F.softmax, full_graph=True)
    program = f.get_concrete_program(paddle.ones([2, 3]))[0].main_program
    values = RunnableProgram._get_program_all_values(program)
    assert [v.get_defining_op().name() for v in values] == ["pd_op.data", "custom_op.twinops_softmax"]
    holders = gc.get_referrers(values[0])
    assert not [r for h in holders for r in gc.get_referrers(h) if isinstance(r, types.CellType)]


SECOND = """
import paddle, twinops.paddle as tp
paddle.enable_static()
for f in (tp.functional.softmax, lambda x: tp.functional.dropout(x, 0.5)):
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [2], "float32")
        x.stop_gradient = False
        y = f(x)
        (g,) = paddle.static.gradients([(y * y)[0]], [x])
        try:
            paddle.static.gradients([(g * g).sum() + x.sum()], [x])
        except NotImplementedError as error:
            print("refused:", error)
"""


def test_second_derivatives_in_a_program_are_refused():
    """Paddle would take them for zero."""
    run = [sys.executable, "-c", SECOND]
    out = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert out.count("refused:") == 2 and "twinops_softmax_grad" in out and "dropout_grad" in out
