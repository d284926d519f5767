"""The softmax functions of twinops.paddle.functional: Paddle's own results as a second opinion, Paddle's
published cases, gradients against finite differences, masks and their gradients."""

import math

import numpy as np
import paddle
import pytest
from helpers import finite_differences, tensor

import twinops.paddle as tp

F = tp.functional
P = paddle.nn.functional


# Shapes and axes of Paddle's own tests of softmax: 2 to 5 dimensions, every axis, none at all.
CASES = [
    ([10, 10], -1),
    ([2, 3, 4, 5], 0),
    ([2, 3, 4, 5], 1),
    ([2, 3, 4, 5], 2),
    ([2, 3, 4, 5], 3),
    ([2, 3, 4, 5], -1),
    ([2, 3, 4, 5, 2], -1),
    ([1, 1, 4097], -1),
    ([], -1),
]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape, axis", CASES)
def test_softmax_is_close_to_paddle(name, shape, axis, rng):
    x = rng.uniform(-1, 1, shape)
    dy = rng.uniform(-1, 1, shape)
    ours, theirs = tensor(x, grad=True), tensor(x, grad=True)
    y, expected = getattr(F, name)(ours, axis), getattr(P, name)(theirs, axis)
    assert y.shape == expected.shape == shape
    # Both are rounded results of the same formula: a few units in the last place.
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=2e-6, atol=2e-7)
    y.backward(tensor(dy))
    expected.backward(tensor(dy))
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_nearer_to_float64_than_paddle(name, rng):
    x = rng.standard_normal([64, 1000]).astype("float32") * 4
    exact = getattr(P, name)(tensor(x, "float64")).numpy()
    ours = np.abs(getattr(F, name)(tensor(x)).numpy() - exact).mean()  # the largest error is a matter of the seed
    theirs = np.abs(getattr(P, name)(tensor(x)).numpy() - exact).mean()
    assert ours < theirs, (ours, theirs)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, -1])
def test_softmax_gradient_is_that_of_finite_differences(name, axis, rng):
    x, dy = rng.standard_normal([3, 5]), rng.standard_normal([3, 5])
    f = getattr(F, name)
    t = tensor(x, "float64", grad=True)
    f(t, axis).backward(tensor(dy, "float64"))
    expected = finite_differences(lambda u: f(u, axis), x, dy)
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-6, atol=1e-8)


def test_dtype_converts_first_as_paddle_does(rng):
    x = tensor(rng.standard_normal([3, 4]), "float16")
    assert F.softmax(x, dtype="float32").dtype == paddle.float32
    expected = F.softmax(x.astype("float32")).numpy()
    assert np.array_equal(F.softmax(x, dtype="float32").numpy(), expected)


def test_a_row_of_nothing_but_minus_infinity():
    x = tensor([[-math.inf, -math.inf], [0, -math.inf]])
    assert np.isnan(F.softmax(x).numpy()[0]).all()
    assert F.softmax(x, masked_rows="zeros").tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float16", 2e-3)])
def test_fused_softmax_mask(dtype, tolerance, rng):
    # Paddle's published case: x [1, 1, 8, 32], mask of 0 and -10000, broadcast over the heads.
    x = tensor(rng.uniform(-1, 1, [2, 4, 8, 32]), dtype, grad=True)
    mask = tensor(np.where(rng.random([2, 1, 8, 32]) < 0.5, -10000.0, 0.0), dtype)
    y = F.fused_softmax_mask(x, mask)
    expected = P.softmax(x.astype("float32") + mask.astype("float32")).numpy()
    np.testing.assert_allclose(y.astype("float32").numpy(), expected, atol=tolerance)
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_fused_softmax_mask_upper_triangle(rng):
    x = rng.uniform(-1, 1, [1, 2, 32, 32])
    y = F.fused_softmax_mask_upper_triangle(tensor(x)).numpy()
    hidden = np.where(np.tril(np.ones([32, 32])) == 1, x, -np.inf)
    expected = np.exp(hidden) / np.exp(hidden).sum(-1, keepdims=True)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert (y[..., np.triu_indices(32, 1)[0], np.triu_indices(32, 1)[1]] == 0).all()


def masked(x, mask=None, lengths=None, scale=1.0, causal=False):
    """Softmax along the last axis in float64, by its definition."""
    v = x.astype("float64") * scale
    columns = np.arange(x.shape[-1])
    if mask is not None:
        v = np.where(mask, -np.inf, v) if mask.dtype == bool else v + mask
    if lengths is not None:
        v = np.where(columns < lengths[..., None, None], v, -np.inf)
    if causal:
        v = np.where(columns <= np.arange(x.shape[-2])[:, None], v, -np.inf)
    w = np.exp(v - v.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    "options",
    [
        {"mask": "bool"},
        {"mask": "float32"},
        {"lengths": True},
        {"scale": 0.125},
        {"causal": True},
        {"mask": "float32", "lengths": True, "scale": 0.5, "causal": True},
    ],
)
def test_masks_of_softmax(options, rng):
    x = rng.standard_normal([2, 8, 8]).astype("float32")
    mask = rng.random([8, 8]) < 0.3
    mask[:, 0] = False  # something is left of every row
    arrays, given = dict(options), dict(options)
    if "mask" in options:
        arrays["mask"] = mask if options["mask"] == "bool" else rng.uniform(-3, 3, [8, 8])
        given["mask"] = tensor(arrays["mask"], options["mask"])
    if "lengths" in options:
        arrays["lengths"] = np.array([5, 3])
        given["lengths"] = tensor([5, 3], "int64")
    expected = masked(x, **arrays)
    t = tensor(x, grad=True)
    np.testing.assert_allclose(F.softmax(t, **given).numpy(), expected, rtol=3e-6, atol=1e-7)
    log = F.log_softmax(t, **given).numpy()
    np.testing.assert_allclose(np.exp(log), expected, rtol=1e-5, atol=1e-6)
    dy = rng.standard_normal(x.shape)
    F.softmax(t, **given).backward(tensor(dy))
    gradient = expected * (dy - (expected * dy).sum(-1, keepdims=True)) * options.get("scale", 1.0)
    np.testing.assert_allclose(t.grad.numpy(), gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_what_is_masked_out_has_no_gradient(op, traced, rng):
    """Whatever comes for it: the gradient of a loss that smooths labels, or, where logarithms are taken, a
    NaN. (Gradients of probabilities are computed without the masks.)"""
    out = rng.random([8, 8]) < 0.3
    mask, lengths = tensor(out, "bool"), tensor([5, 3], "int32")
    out = out | (np.arange(8) >= np.array([5, 3])[:, None, None])

    def f(x):
        return getattr(F, op)(x, mask=mask, lengths=lengths, masked_rows="zeros")

    f = paddle.jit.to_static(f, full_graph=True) if traced else f
    array, dy, found = rng.standard_normal([2, 8, 8]), rng.standard_normal([2, 8, 8]), []
    for value in (0, -0.025, math.nan)[: 3 if op == "log_softmax" else 2]:
        x = tensor(array, grad=True)
        f(x).backward(tensor(np.where(out, value, dy)))
        found.append(x.grad.numpy())
    assert (found[0][out] == 0).all() and np.isfinite(found[0]).all()
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["bool", "numbers", "lengths", "bias", "causal"])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_a_program_gives_the_bits_of_an_eager_call(op, kind, dtype, rng):
    out = tensor(rng.random([1, 6, 9]) < 0.3, "bool")
    numbers = tensor(rng.standard_normal([1, 6, 9]), dtype, grad=kind == "bias")
    masks = {
        "bool": {"mask": out},
        "numbers": {"mask": numbers},
        "lengths": {"lengths": tensor([9, 4], "int32")},
        "bias": {"bias": numbers, "mask": out},
        "causal": {"causal": True, "causal_offset": 1},
    }

    def f(x):
        return getattr(F, op)(x, scale=0.3, masked_rows="zeros", **masks[kind])

    array, dy = rng.standard_normal([2, 6, 9]), tensor(rng.standard_normal([2, 6, 9]), dtype)
    results = []
    for function in (f, paddle.jit.to_static(f, full_graph=True)):
        x = tensor(array, dtype, grad=True)
        numbers.clear_gradient()
        y = function(x)
        y.backward(dy)
        results.append([t.numpy().tobytes() for t in (y, x.grad, numbers.grad) if t is not None])
    assert len(results[0]) == (3 if kind == "bias" else 2)
    assert results[0] == results[1]


@pytest.mark.parametrize("traced", [False, True])
def test_a_scale_keeps_its_64_bits(traced, rng):
    """0.1 as a float is another number."""
    x = rng.standard_normal([5, 9])
    softmax = paddle.jit.to_static(F.softmax, full_graph=True) if traced else F.softmax
    scaled = softmax(tensor(x, "float64"), scale=0.1)
    assert np.array_equal(scaled.numpy(), F.softmax(tensor(x * 0.1, "float64")).numpy())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_softmax_dropout_is_both_one_after_the_other(p, training, rng):
    array, mask = rng.standard_normal([4, 6, 33]), tensor(rng.random([6, 33]) < 0.2, "bool")
    dy = tensor(rng.standard_normal([4, 6, 33]))
    x, t = tensor(array, grad=True), tensor(array, grad=True)
    y = F.softmax_dropout(x, p, training=training, mask=mask, generator=tp.Generator(3))
    z = F.softmax(t, mask=mask)
    z = F.dropout(z, p, training=training, generator=tp.Generator(3))
    assert np.array_equal(y.numpy(), z.numpy())
    y.backward(dy)
    z.backward(dy)
    assert np.array_equal(x.grad.numpy(), t.grad.numpy())
    with paddle.no_grad():
        again = F.softmax_dropout(x, p, training=training, mask=mask, generator=tp.Generator(3))
    assert np.array_equal(again.numpy(), z.numpy())


def softmax_masked(x, m):
    return F.softmax(x, mask=m, scale=0.7)


def log_softmax_masked(x, m):
    return F.log_softmax(x, 1, mask=m)


def fused_softmax_masked(x, m):
    return F.fused_softmax_mask(x, m)


def softmax_dropout_masked(x, m):
    return F.softmax_dropout(x, 0.4, mask=m, generator=tp.Generator(7))


def biased(x, m):
    lengths = paddle.to_tensor([6, 2, 4, 6])
    return F.softmax(x, bias=m, mask=x[0] > 1.0, lengths=lengths, masked_rows="zeros")


def biased_and_masked(x, m):
    return F.log_softmax(x, 1, bias=m, mask=0.5 * m)


MASKED = [softmax_masked, log_softmax_masked, fused_softmax_masked, softmax_dropout_masked]
MASKED += [biased, biased_and_masked]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("of_x", [False, True])
@pytest.mark.parametrize("masked_function", MASKED)
def test_a_mask_that_asks_for_a_gradient_gets_it(masked_function, of_x, traced, rng):
    x, mask, dy = (rng.standard_normal(shape) for shape in ([4, 3, 5, 6], [3, 1, 6], [4, 3, 5, 6]))
    if traced and masked_function is softmax_dropout_masked:
        pytest.skip("a program draws its seed when it runs")
    f = paddle.jit.to_static(masked_function, full_graph=True) if traced else masked_function
    x_given, m = tensor(x, "float64", grad=of_x), tensor(mask, "float64", grad=True)
    f(x_given, m).backward(tensor(dy, "float64"))
    expected = finite_differences(lambda u: masked_function(tensor(x, "float64"), u), mask, dy)
    np.testing.assert_allclose(m.grad.numpy(), expected, rtol=1e-6, atol=1e-7)
    assert (x_given.grad is not None) == of_x
    with paddle.no_grad():
        f(x_given, m)


def test_a_second_derivative_beside_a_masks_gradient_is_refused(rng):
    x, mask = (tensor(rng.standard_normal([2, 3]), grad=True) for _ in range(2))
    for name in ("mask", "bias"):
        with pytest.raises(Exception, match=f"whose {name} has a gradient"):  # Paddle wraps it
            paddle.grad(F.softmax(x, **{name: mask}).square().sum(), x, create_graph=True)
