"""The layers, and patch(): existing models take ours, and what is left to Paddle says so."""

import numpy as np
import paddle
from helpers import tensor

import twinops.paddle as tp

F = tp.functional
P = paddle.nn.functional


def test_layers_are_paddles(rng):
    x = tensor(rng.standard_normal([2, 3, 4, 5]))
    assert np.array_equal(tp.Softmax(1)(x).numpy(), F.softmax(x, 1).numpy())
    assert np.array_equal(tp.LogSoftmax()(x).numpy(), F.log_softmax(x).numpy())
    for layer in (tp.Dropout(0.5), tp.Dropout2D(0.5), tp.FusedDropoutAdd(0.5)):
        arguments = (x, x) if isinstance(layer, tp.FusedDropoutAdd) else (x,)
        layer.eval()
        expected = x + x if len(arguments) == 2 else x
        assert np.array_equal(layer(*arguments).numpy(), expected.numpy())
        layer.train()
        assert not np.array_equal(layer(*arguments).numpy(), expected.numpy())
    assert isinstance(tp.Dropout(), paddle.nn.Dropout)
    output, mask = tp.BitmaskDropout(0.5)(x)
    assert output.shape == x.shape and mask.shape == [4]


def owner_and_name(path):
    *parts, name = path.split(".")[1:]
    owner = paddle
    for part in parts:
        owner = getattr(owner, part)
    return owner, name


def test_patch_and_unpatch():
    names = tp.patched_names()
    before = {path: getattr(*owner_and_name(path)) for path in names}
    taken = {path for path, whose in names.items() if whose == "twinops"}
    assert len(taken) >= 14 and all(whose.startswith(("twinops", "Paddle: ")) for whose in names.values())

    def replaced():
        return {path for path, was in before.items() if getattr(*owner_and_name(path)) is not was}

    tp.patch()
    try:
        tp.patch()
        assert replaced() == taken
        x = paddle.ones([64])
        paddle.seed(5)
        ours = paddle.nn.Dropout(0.5)(x).numpy()
        paddle.seed(5)
        assert np.array_equal(ours, F.dropout(x, 0.5).numpy())
        attention = paddle.nn.MultiHeadAttention(8, 2, dropout=0.1)
        assert attention(paddle.ones([1, 3, 8])).shape == [1, 3, 8]
    finally:
        tp.unpatch()
    assert not replaced()
    with tp.patched():
        assert replaced() == taken
    assert not replaced()


def test_every_way_to_a_softmax_is_taken_over(rng):
    x = tensor(rng.standard_normal([2, 3, 400]))
    expected = F.softmax(x, 2).numpy()
    assert not np.array_equal(P.softmax(x, 2).numpy(), expected)  # Paddle's is another
    with tp.patched():
        ways = [
            P.softmax(x, 2),
            P.softmax(x, axis=2, out=None),
            P.softmax(input=x, dim=2),
            P.softmax_(x.clone(), 2),
            paddle.softmax(x, 2),
            paddle.softmax(x, dim=2, out=paddle.zeros_like(x)),
            paddle.special.softmax(x, 2),
            x.softmax(2),
            paddle.nn.Softmax(2)(x),
        ]
        assert np.array_equal(x.softmax().numpy(), F.softmax(x, 0).numpy())
        # An argument that only Paddle's has goes to Paddle's.
        assert not np.array_equal(P.softmax(x, 2, out=paddle.zeros_like(x)).numpy(), expected)
    for y in ways:
        assert np.array_equal(y.numpy(), expected)


def test_what_a_program_cannot_ask_ours_goes_to_paddles():
    with tp.patched():

        @paddle.jit.to_static(full_graph=True)
        def f(x, p):
            return P.dropout(x, p)

        kept = f(paddle.ones([4096]), paddle.to_tensor(0.25)).numpy() != 0
    assert 0.65 < kept.mean() < 0.85


def test_a_profiler_shows_the_operators(tmp_path):
    x = tensor(np.ones([8, 8]), grad=True)
    with paddle.profiler.Profiler(targets=[paddle.profiler.ProfilerTarget.CPU]) as profiler:
        F.softmax(x).sum().backward()
    profiler.export(str(tmp_path / "trace.json"), "json")
    trace = (tmp_path / "trace.json").read_text()
    assert '"twinops_softmax' in trace and '"twinops_softmax_grad' in trace
