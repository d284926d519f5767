"""Derivatives of derivatives: right to any order, or refused. Paddle's own operators and finite
differences in float64 are the second opinion."""

import gc

import numpy as np
import paddle
import pytest
from helpers import held

import twinops.paddle as tp

F = tp.functional


def tensor(array, grad=True):
    return paddle.to_tensor(np.asarray(array, "float64"), stop_gradient=not grad)


def written_out(x):
    """Softmax of Paddle's operators that have derivatives of every order asked for here."""
    e = paddle.exp(x)
    return e / e.sum(-1, keepdim=True)


def softmax_of_a_part(x):
    """Masks, lengths, a scale, and rows that are masked out throughout."""
    mask = paddle.to_tensor([[False, True, False, False], [True, True, True, True]])
    lengths = paddle.to_tensor([4, 2], "int32")
    options = {"mask": mask, "lengths": lengths, "scale": 0.75, "masked_rows": "zeros"}
    return F.softmax(x, **options)


def generator():
    return tp.Generator(3)


# Name -> (ours, the same in Paddle's operators).
FUNCTIONS = {
    "softmax": (F.softmax, written_out),
    "softmax along 0": (lambda x: F.softmax(x, 0), lambda x: written_out(x.t()).t()),
    "log_softmax": (F.log_softmax, lambda x: paddle.log(written_out(x))),
    "dropout": (
        lambda x: F.dropout(x, 0.5, generator=generator()),
        lambda x: x * F.dropout(paddle.ones_like(x), 0.5, generator=generator()),
    ),
    "dropout without a mask": (
        lambda x: F.dropout(x, 0.5, generator=generator(), mask=None),
        lambda x: x * F.dropout(paddle.ones_like(x), 0.5, generator=generator()),
    ),
    "dropout of rows": (
        lambda x: F.dropout(x, 0.5, axis=0, generator=generator()),
        lambda x: x * F.dropout(paddle.ones_like(x), 0.5, axis=0, generator=generator()),
    ),
    "fused_dropout_add": (
        lambda x: F.fused_dropout_add(x, x * x, 0.5, generator=generator()),
        lambda x: x * F.dropout(paddle.ones_like(x), 0.5, generator=generator()) + x * x,
    ),
    "bias_dropout_residual": (
        lambda x: F.bias_dropout_residual(x, x[0] * x[1], x, 0.5, generator=generator()),
        lambda x: (x + x[0] * x[1]) * F.dropout(paddle.ones_like(x), 0.5, generator=generator()) + x,
    ),
    "softmax_dropout": (
        lambda x: F.softmax_dropout(x, 0.5, generator=generator()),
        lambda x: written_out(x) * F.dropout(paddle.ones_like(x), 0.5, generator=generator()),
    ),
    "random_projection": (
        lambda x: F.random_projection(x, 3, seed=5),
        lambda x: x @ F.random_projection(paddle.eye(4, dtype="float64"), 3, seed=5),
    ),
}


def second(f, x, weights, create_graph=False):
    """The gradient of a number that the gradient of another number gives."""
    y = f(x)
    (g,) = paddle.grad((y * y * y * weights[: y.shape[0], : y.shape[1]]).sum(), x, create_graph=True)
    return g, paddle.grad((g * g).sum(), x, create_graph=create_graph)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_those_of_paddles_operators(name, rng):
    array, weights = rng.standard_normal([2, 4]), tensor(rng.standard_normal([2, 4]), False)
    found = [second(f, tensor(array), weights) for f in FUNCTIONS[name]]
    for ours, expected in zip(*found):
        largest = np.abs(expected.numpy()).max()
        assert largest > 0
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9 * largest)


@pytest.mark.parametrize("name", [*FUNCTIONS, "masked"])
def test_third_derivatives_are_those_of_finite_differences(name, rng):
    f = softmax_of_a_part if name == "masked" else FUNCTIONS[name][0]
    array, weights = rng.standard_normal([2, 4]), tensor(rng.standard_normal([2, 4]), False)
    direction, step = rng.standard_normal([2, 4]), 1e-5

    def along(array):
        x = tensor(array)
        h = second(f, x, weights, True)[1]
        return (h * h).sum(), x

    end, x = along(array)
    (third,) = paddle.grad(end, x)
    ends = [along(array + sign * step * direction)[0].item() for sign in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    found = (third.numpy() * direction).sum()
    assert abs(found - expected) <= 1e-5 * max(1.0, abs(expected)), (found, expected)


def test_the_first_derivative_has_the_same_bits_with_and_without_create_graph(rng):
    array = rng.standard_normal([5, 70]).astype("float32")
    for f in (F.softmax, F.log_softmax, *(FUNCTIONS[n][0] for n in ("dropout", "softmax_dropout"))):
        x = paddle.to_tensor(array, stop_gradient=False)
        plain, kept = (paddle.grad(f(x)[:, :9].square().sum(), x, create_graph=k)[0] for k in (False, True))
        assert np.array_equal(plain.numpy(), kept.numpy())


def test_the_case_of_a_users():
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    (g,) = paddle.grad((F.softmax(x) ** 2)[0], x, create_graph=True)
    ((g * g).sum() + x.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), [1.0534, 0.9466], atol=5e-5)


def test_a_hessian(rng):
    array = rng.standard_normal([3])
    x = tensor(array)
    y = F.softmax(x)
    found = paddle.autograd.hessian((y * y)[0], x)[:].numpy()
    for i in range(3):
        x = tensor(array)
        y = written_out(x)
        (g,) = paddle.grad((y * y)[0], x, create_graph=True)
        (row,) = paddle.grad(g[i], x)
        np.testing.assert_allclose(found[i], row.numpy(), rtol=1e-9, atol=1e-12)


# paddle.grad cuts off what leads to none of its targets.
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_with_respect_to_some_of_the_inputs(create_graph, rng):
    arrays = [rng.standard_normal(shape) for shape in ([3, 4], [4], [3, 4])]

    def cubes():
        x, bias, residual = tensors = [tensor(a) for a in arrays]
        y = F.bias_dropout_residual(x * 1, bias, residual * 1, 0.5, generator=generator())
        return (y * y * y).sum(), tensors

    every = paddle.grad(*cubes())
    for i, expected in enumerate(every):
        end, tensors = cubes()
        (found,) = paddle.grad(end, tensors[i], create_graph=create_graph)
        assert np.array_equal(found.numpy(), expected.numpy())
        if create_graph:
            (found * found).sum().backward()
            assert np.abs(tensors[i].grad.numpy()).max() > 0


def test_a_parameter_beside_the_target(rng):
    x, w = tensor(rng.standard_normal([2, 4])), tensor(rng.standard_normal([2, 4]))
    found = []
    for f in (F.softmax, written_out):
        (g,) = paddle.grad((f(x) * w).sum(), x, create_graph=True)
        found.append([t.numpy() for t in (*paddle.grad((g * g).sum(), x, retain_graph=True),
                                          *paddle.grad((g * g).sum(), w))])
    for ours, expected in zip(*found):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [F.softmax, lambda x: F.bitmask_dropout(x, 0.5)[0]])
def test_what_a_gradient_reads_may_not_be_overwritten(f):
    x = paddle.ones([4])
    x.stop_gradient = False
    y = f(x)
    if f is F.softmax:
        y.scale_(2.0)
        with pytest.raises(Exception, match="inplace"):
            y.sum().backward()
    else:  # a dropout reads its mask alone
        y.scale_(2.0)
        y.sum().backward()


def test_a_forward_pass_alone_is_not_kept():
    """An output that its own gradient reads must not hold itself."""

    def memory():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    x = paddle.ones([512, 1024])
    x.stop_gradient = False
    for _ in range(4):
        F.softmax_dropout(F.softmax(x), 0.5)
    gc.collect()
    before = memory()
    for _ in range(40):  # 2 MiB each time, and more
        F.softmax_dropout(F.log_softmax(F.softmax(x)), 0.5)
    assert memory() - before < 40 << 20


def test_what_has_no_second_derivative_is_refused(monkeypatch):
    from twinops.paddle import _second

    x = tensor(np.ones(4))
    monkeypatch.delitem(_second.SECOND, "softmax")
    paddle.grad(F.softmax(x)[0], x)
    with pytest.raises(Exception, match="twinops has no second derivative of softmax"):
        paddle.grad(F.softmax(x)[0], x, create_graph=True)


@pytest.mark.parametrize("f", [F.softmax, F.log_softmax, paddle.nn.functional.softmax])
def test_a_backward_pass_lets_go_what_was_kept(f):
    x = tensor(np.ones([64, 1024]))

    def backward(retain_graph):
        loss = f(x).sum()
        loss.backward(retain_graph=retain_graph)
        x.clear_gradient(set_to_zero=False)
        return loss

    assert held(lambda: backward(True)) >= 64 * 1024 * 8
    assert held(lambda: backward(False)) < 1024


def test_paddle_grad_keeps_the_graph_that_it_is_told_to():
    x = tensor(np.ones([2, 4]))
    y = F.softmax(x)
    loss = (y * y).sum()
    first, second = (paddle.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    loss.backward()
    assert np.array_equal(first.numpy(), second.numpy())
    assert np.array_equal(first.numpy(), x.grad.numpy())
