"""The operators' place in Paddle's autograd graph: repeated backward passes, what they free, hooks, PyLayers,
recompute, threads."""

import functools
import subprocess
import sys
import threading

import numpy as np
import paddle
import pytest
from helpers import held, tensor
from test_derivatives import FUNCTIONS

import twinops.paddle as tp

F = tp.functional


def number(array):
    return tensor(array, "float64", grad=True)


def bias_of(x):
    return (x * x).sum(0)


BACKWARD = {name: ours for name, (ours, _) in FUNCTIONS.items()} | {
    "softmax with a bias": lambda x: F.softmax(x, bias=bias_of(x)),
    "softmax with a mask": lambda x: F.softmax(x, mask=bias_of(x)),
    "softmax of a part": lambda x: F.softmax(x, lengths=paddle.to_tensor([4, 2], "int32"), masked_rows="zeros"),
    "log_softmax with a bias": lambda x: F.log_softmax(x, bias=bias_of(x)),
    "softmax_dropout with a bias": lambda x: F.softmax_dropout(
        x, 0.5, bias=bias_of(x), generator=tp.Generator(3)
    ),
    "dropout of bits": lambda x: F.bitmask_dropout(x, 0.5, generator=tp.Generator(3))[0],
    "dropout of bytes": lambda x: F.dropout(x, 0.5, generator=tp.Generator(3), mask="bytes"),
    "bias alone": lambda x: F.bias_dropout_residual(x, x[0], p=0.5, generator=tp.Generator(3)),
    "residual alone": lambda x: F.bias_dropout_residual(x, residual=x, p=0.5, generator=tp.Generator(3)),
}
every = pytest.mark.parametrize("name", BACKWARD)


def loss_of(name, rng):
    x = number(rng.standard_normal([2, 4]))
    y = BACKWARD[name](x)
    return x, y, (y * paddle.to_tensor(rng.standard_normal(y.shape))).sum()


@every
def test_a_second_pass_through_a_graph_that_is_kept(name, rng):
    x, y, loss = loss_of(name, rng)
    (expected,) = paddle.grad(loss, x)
    for times in (1, 2, 3):
        loss.backward(retain_graph=times < 3)
        np.testing.assert_allclose(x.grad.numpy(), times * expected.numpy(), rtol=1e-14)
    assert np.abs(expected.numpy()).max() > 0


@every
@pytest.mark.parametrize("retain_graph", [False, True])
def test_a_second_pass_through_a_graph_that_is_not_kept_is_refused(name, retain_graph, rng):
    x, y, loss = loss_of(name, rng)
    loss.backward(retain_graph=retain_graph)
    if retain_graph:
        loss.backward()
    found = x.grad.numpy()
    for again in (loss, y):
        with pytest.raises((RuntimeError, SystemError), match="retain_graph=True"):  # ours, Paddle's
            again.backward()
    assert np.array_equal(x.grad.numpy(), found)


@every
def test_two_losses_of_one_value(name, rng):
    x, y, _ = loss_of(name, rng)
    (y * 3).sum().backward(retain_graph=True)
    (y * 4).sum().backward()
    found = x.grad.numpy()
    x.clear_gradient()
    y = BACKWARD[name](x)
    (y * 7).sum().backward()
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-12, atol=1e-14)


@every
def test_hooks_see_what_comes_for_a_value(name, rng):
    seen = []

    def doubled(which):
        return lambda g: seen.append((which, g.numpy())) or g * 2

    x, _, _ = loss_of(name, rng)
    (expected,) = paddle.grad(BACKWARD[name](x * 1).sum(), x)
    h = x * 1
    y = BACKWARD[name](h)
    for value, which in ((h, "h"), (y, "y")):
        value.register_hook(doubled(which))
    y.register_hook(lambda g: None).remove()
    y.retain_grads()
    y.sum().backward(retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), 4 * expected.numpy(), rtol=1e-12, atol=1e-14)
    assert [which for which, _ in seen] == ["y", "h"]
    assert np.array_equal(seen[0][1], np.ones(y.shape))
    np.testing.assert_allclose(seen[1][1], 2 * expected.numpy(), rtol=1e-12, atol=1e-14)
    assert list(y.grad.shape) == list(y.shape)
    y.sum().backward()
    assert len(seen) == 4


@pytest.mark.parametrize("shape", [[], [0], [0, 4], [4, 0], [1], [2, 1, 3]])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_shapes(shape, dtype):
    dropout = lambda x: F.bias_dropout_residual(x, residual=x, p=0.5)  # noqa: E731
    for f in (F.softmax, F.log_softmax, lambda x: F.dropout(x, 0.5), dropout):
        x = tensor(np.full(shape, 2.0), dtype, grad=True)
        if not shape and f is dropout:
            continue
        y = f(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert (list(x.grad.shape), x.grad.dtype) == (shape, x.dtype)
        assert (list(y.shape), y.dtype) == (shape, x.dtype)


def test_gradients_with_and_without_elements():
    x, bias = number(np.ones([0, 4])), number(np.ones([4]))
    for f in (lambda: F.softmax(x, bias=bias), lambda: F.bias_dropout_residual(x, bias, p=0.5)):
        for _ in range(2):
            y = f()
            y.sum().backward(retain_graph=True)
            y.sum().backward()
        assert (list(x.grad.shape), bias.grad.numpy().tolist()) == ([0, 4], [0.0] * 4)


def with_mask(x, other):
    return F.softmax(x, mask=other)


def with_bias(x, other):
    return F.log_softmax(x, bias=other)


def with_bias_and_dropped(x, other):
    return F.softmax_dropout(x, 0.5, bias=other)


def after_bias(x, other):
    return F.bias_dropout_residual(x, other, p=0.5)


def beside_residual(x, other):
    return F.bias_dropout_residual(x, residual=other, p=0.5)


OF_TWO = [with_mask, with_bias, with_bias_and_dropped, after_bias, beside_residual]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("shape", [[0, 4], [4, 0]])
@pytest.mark.parametrize("function", OF_TWO)
def test_an_input_without_elements_is_there(function, shape, traced):
    """It has a gradient, and is refused where its shape does not fit."""
    f = paddle.jit.to_static(function, full_graph=True) if traced else function
    x, other = number(np.ones(shape)), number(np.ones(shape))
    f(x, other).sum().backward()
    assert list(x.grad.shape) == list(other.grad.shape) == shape
    with pytest.raises(ValueError, match=r"expected (a shape that broadcasts to x's|the shape of x), \[3, 4\]"):
        f(number(np.ones([3, 4])), other)


def test_no_grad_makes_no_graph():
    x = number(np.ones([2, 4]))
    with paddle.no_grad():
        y = F.softmax(x)
    assert y.stop_gradient and y.grad_fn is None
    for f in (F.softmax, F.log_softmax, F.dropout):
        assert f(x.detach()).stop_gradient
        assert not f(x).stop_gradient and not f(x).is_leaf


def test_what_is_written_into_later_moves_no_history(rng):
    """The gradient depends on x as it was, whatever becomes of that tensor."""
    found = []
    x = number(rng.standard_normal([2, 4]))
    for overwritten in (False, True):
        for split in (False, True):
            h = paddle.split(paddle.concat([x, x, x]), 3)[1] if split else x * 1
            y = F.softmax(h)
            if overwritten:
                h.scale_(5.0)
            (g,) = paddle.grad((y * y)[0].sum(), x, create_graph=True)
            found.append(paddle.grad((g * g).sum(), x)[0].numpy())
    for other in found[1:]:
        assert np.array_equal(found[0], other)
    assert np.abs(found[0]).max() > 0


def test_what_a_gradient_reads_may_not_be_overwritten(rng):
    x, bias = number(rng.standard_normal([2, 4])), number(rng.standard_normal([4]))
    lengths = paddle.to_tensor([4, 2], "int32")
    y = F.softmax(x, lengths=lengths, bias=bias)
    lengths.scale_(1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="lengths.*inplace"):
            y.sum().backward(retain_graph=True)
    paddle.grad(F.softmax(x).sum(), x)  # a pass that failed leaves nothing behind


class Own(paddle.autograd.PyLayer):
    """A user's, with ours in its forward pass and a pass of its own in its backward pass."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.softmax(x)

    @staticmethod
    def backward(ctx, dy):
        with paddle.enable_grad():
            x = ctx.saved_tensor()[0].detach()
            x.stop_gradient = False
            paddle.autograd.backward([F.softmax(x)], [dy])
        return x.grad


def test_passes_within_passes(rng):
    x = number(rng.standard_normal([2, 4]))
    results = []
    for inner in (lambda x: F.softmax(x), lambda x: Own.apply(x)):
        for f in (inner, functools.partial(paddle.distributed.fleet.utils.recompute, inner)):
            bias = F.log_softmax(x)
            y = F.bias_dropout_residual(f(F.softmax(x)), residual=bias, p=0.5, generator=tp.Generator(3))
            (y * y).sum().backward(retain_graph=not results)
            if not results:  # the passes within did not let go of what the one around them keeps
                x.clear_gradient()
                (y * y).sum().backward()
            results.append(x.grad.numpy())
            x.clear_gradient()
    for other in results[1:]:
        np.testing.assert_allclose(results[0], other, rtol=1e-12, atol=1e-14)


def test_gradients_that_nobody_fetches_are_let_go():
    x, bias, residual = (number(np.ones([64, 1024][i % 2 :])) for i in range(3))
    y = F.bias_dropout_residual(x * 1, bias, residual * 1, 0.5)
    assert held(lambda: paddle.grad(y, bias, retain_graph=True)) < 3 * 8 * 1024
    # Of dropout a byte or a bit an element is kept, of x nothing.
    assert held(lambda: F.dropout(x, 0.5)) < 64 * 1024 * (8 + 2)


def test_a_pass_that_fails_frees_its_gradients():
    x, bias, residual = (number(np.ones([64, 1024][i % 2 :])) for i in range(3))
    y = F.bias_dropout_residual(x, bias, residual, p=0.5)

    def fails():
        with pytest.raises(ValueError, match="MetaTensor"):  # docs/hosts/paddle.md#how-it-works
            paddle.grad(y, bias, retain_graph=True, no_grad_vars=[x])

    assert held(fails) < 3 * 8 * 1024


def test_derivatives_of_derivatives_let_go_what_they_kept():
    x = number(np.ones([64, 1024]))

    def passes(retain_graph):
        (g,) = paddle.grad(F.log_softmax(x), x, create_graph=True)
        loss = (g * g).sum()
        loss.backward(retain_graph=retain_graph)
        x.clear_gradient(set_to_zero=False)
        return loss

    assert held(lambda: passes(True)) > 2 * held(lambda: passes(False))


def test_threads(rng):
    arrays = [rng.standard_normal([3, 5]) for _ in range(4)]
    found, expected = {}, {}

    def work(i, results):
        x = number(arrays[i])
        for _ in range(20):
            y = F.bias_dropout_residual(F.softmax(x), residual=F.log_softmax(x), p=0.5, generator=tp.Generator(i))
            y.sum().backward(retain_graph=True)  # paddle.grad is for one thread at a time
            y.sum().backward()
        results[i] = x.grad.numpy()

    threads = [threading.Thread(target=work, args=(i, found)) for i in range(4)]
    for thread in threads:
        thread.start()
    for i in range(4):
        work(i, expected)
    for thread in threads:
        thread.join()
    for i in range(4):
        assert np.array_equal(found[i], expected[i])


def test_a_graph_may_outlive_the_interpreter():
    code = """
import paddle, sys, twinops.paddle as tp
x = paddle.ones([2, 4]); x.stop_gradient = False
sys.kept = y, z = tp.functional.softmax(x), tp.functional.dropout(x, 0.5)
x.register_hook(lambda g, y=y: None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
