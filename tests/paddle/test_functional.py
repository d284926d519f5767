"""The dropout functions and the projection of twinops.paddle.functional: Paddle's own results as a second
opinion, gradients against finite differences."""

import math

import numpy as np
import paddle
import pytest
from helpers import finite_differences, tensor

import twinops.paddle as tp

F = tp.functional
P = paddle.nn.functional


# Paddle's published cases: p 0, in between and 1; both modes; training and not; 1 to 3 dimensions.
@pytest.mark.parametrize("mode", ["upscale_in_train", "downscale_in_infer"])
@pytest.mark.parametrize("p", [0, 0.0, 0.35, 1, 1.0])
@pytest.mark.parametrize("shape", [[32, 64], [32], [32, 64, 3]])
def test_dropout_rules_are_paddles(shape, p, mode, rng):
    x = rng.standard_normal(shape) + 10  # no element is 0
    for dtype in ("float32", "float64"):
        test = F.dropout(tensor(x, dtype), p, training=False, mode=mode).numpy()
        if len(shape) > 1 or mode == "upscale_in_train":  # Paddle's fails for one dimension
            theirs = P.dropout(tensor(x, dtype), p, training=False, mode=mode).numpy()
            np.testing.assert_allclose(test, theirs, rtol=1e-6)
        y = F.dropout(tensor(x, dtype), p, mode=mode).numpy()
        kept = y != 0
        scale = 1 / (1 - p) if mode == "upscale_in_train" and p < 1 else 1
        np.testing.assert_allclose(y[kept], (x * scale)[kept], rtol=1e-6)
        assert kept.all() if p == 0 else True
        assert not kept.any() if p == 1 else True


def test_dropout_drops_as_often_as_asked():
    y = F.dropout(paddle.ones([1 << 20]), 0.3).numpy()
    assert abs((y == 0).mean() - 0.3) < 5 * math.sqrt(0.3 * 0.7 / (1 << 20))


@pytest.mark.parametrize("axis", [0, 1, [0, 1], (0, 2)])
def test_axes_name_what_is_dropped_apart(axis):
    y = F.dropout(paddle.ones([50, 51, 52]), 0.5, axis=axis).numpy()
    axes = [axis] if isinstance(axis, int) else list(axis)
    for shared in set(range(3)) - set(axes):
        assert (y == y.take([0], axis=shared)).all()
    assert 0 < (y == 0).mean() < 1


@pytest.mark.parametrize("layout, channels", [("NCHW", (2, 3)), ("NHWC", (1, 2))])
def test_dropout2d_drops_channels(layout, channels):
    y = F.dropout2d(paddle.ones([4, 8, 8, 8]), 0.5, data_format=layout).numpy()
    assert (y == y.max(axis=channels, keepdims=True)).all() and 0 < (y == 0).mean() < 1


def test_dropout3d_drops_channels():
    y = F.dropout3d(paddle.ones([4, 8, 3, 3, 3]), 0.5).numpy()
    assert (y == y.max(axis=(2, 3, 4), keepdims=True)).all() and 0 < (y == 0).mean() < 1


def test_dropout_gradient_is_that_of_finite_differences(rng):
    x, dy = rng.standard_normal([4, 6]), rng.standard_normal([4, 6])

    def f(t):
        return F.dropout(t, 0.4, generator=tp.Generator(7))

    t = tensor(x, "float64", grad=True)
    f(t).backward(tensor(dy, "float64"))
    expected = finite_differences(f, x, dy)
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("bias", [[4], [3, 4]])
def test_bias_dropout_residual_gradients_are_those_of_finite_differences(bias, rng):
    arrays = {"x": [3, 4], "bias": bias, "residual": [3, 4]}
    arrays = {name: rng.standard_normal(shape) for name, shape in arrays.items()}
    dy = rng.standard_normal([3, 4])

    def f(**changed):
        given = {n: changed.get(n, tensor(a, "float64")) for n, a in arrays.items()}
        return F.bias_dropout_residual(**given, p=0.4, generator=tp.Generator(7))

    tensors = {name: tensor(a, "float64", grad=True) for name, a in arrays.items()}
    f(**tensors).backward(tensor(dy, "float64"))
    for name, array in arrays.items():
        expected = finite_differences(lambda u, name=name: f(**{name: u}), array, dy)
        np.testing.assert_allclose(tensors[name].grad.numpy(), expected, rtol=1e-6, atol=1e-8)


def test_fused_dropout_add(rng):
    x, y = rng.standard_normal([5, 6]), rng.standard_normal([5, 6])
    for training in (True, False):
        ours = F.fused_dropout_add(tensor(x), tensor(y), 0.5, training, generator=tp.Generator(3))
        dropped = F.dropout(tensor(x), 0.5, training=training, generator=tp.Generator(3))
        assert np.array_equal(ours.numpy(), (dropped + tensor(y)).numpy())


@pytest.mark.parametrize("shape, words", [([7, 9], 2), ([4, 16], 2), ([65], 3)])
def test_bitmask_dropout_gives_its_mask(shape, words):
    y, mask = F.bitmask_dropout(paddle.ones(shape), 0.5)
    kept = np.unpackbits(mask.numpy().view(np.uint8), bitorder="little")
    n = math.prod(shape)
    assert mask.shape == [words] and np.array_equal(kept[:n] == 1, (y.numpy() != 0).ravel())
    assert not kept[n:].any()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"p": "0.5"}, TypeError, "p argument should be a number"),
        ({"p": -0.1}, ValueError, "p argument should between 0 and 1"),
        ({"p": 1.1}, ValueError, "p argument should between 0 and 1"),
        ({"mode": "abc"}, ValueError, "mode argument should be"),
        ({"axis": 2}, ValueError, "axis value should be"),
        ({"axis": [-1]}, ValueError, "axis value should be"),
        ({"mask": "words"}, ValueError, "mask argument"),
    ],
)
def test_dropout_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        F.dropout(paddle.ones([3, 4]), **arguments)


T = paddle.ones([2, 3])


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda x: F.softmax(x), "softmax: x"),
        (lambda x: F.log_softmax(x, dtype="float64"), "log_softmax: x"),
        (lambda x: F.softmax(T, mask=x), "softmax: mask"),
        (lambda x: F.softmax(T, lengths=x), "softmax: lengths"),
        (lambda x: F.fused_softmax_mask(T, x), "softmax: mask"),
        (lambda x: F.softmax_dropout(x), "softmax_dropout: x"),
        (lambda x: F.dropout(x), "dropout: x"),
        (lambda x: F.dropout(x, axis=0), "dropout: x"),
        (lambda x: F.dropout1d(x), "dropout1d: input"),
        (lambda x: F.dropout2d(x), "dropout2d: x"),
        (lambda x: F.dropout3d(x), "dropout3d: x"),
        (lambda x: F.bitmask_dropout(x), "dropout: x"),
        (lambda x: F.fused_dropout_add(T, x), "fused_dropout_add: y"),
        (lambda x: F.bias_dropout_residual(T, x), "bias_dropout_residual: bias"),
    ],
)
def test_lists_and_arrays_are_refused_before_anything_is_drawn(f, message):
    before = tp.default_generator().state_dict()
    for x, kind in (([1.0, 2.0], "list"), (np.ones([2, 3], "f4"), "ndarray")):
        with pytest.raises(TypeError, match=f"{message}: expected a tensor; got {kind}"):
            f(x)
    assert tp.default_generator().state_dict() == before


@pytest.mark.parametrize("f", [F.softmax_, lambda x: F.dropout(x, 0.5, inplace=True)])
def test_in_place(f):
    x = paddle.to_tensor([[1.0, 2.0, 3.0, 4.0]], stop_gradient=False)
    paddle.seed(7)
    expected = F.softmax(x) if f is F.softmax_ else F.dropout(x, 0.5)
    (expected * expected).sum().backward()
    gradient = x.grad.numpy()
    x.clear_gradient()
    paddle.seed(7)
    h = x * 1
    y = f(h)
    assert y is h and np.array_equal(h.numpy(), expected.numpy())
    (y * y).sum().backward()
    assert np.array_equal(x.grad.numpy(), gradient)
    with pytest.raises(ValueError, match="Leaf Var"):  # as Paddle
        f(x)


def test_p_as_a_tensor():
    x = paddle.ones([64])
    paddle.seed(7)
    expected = F.dropout(x, 0.25).numpy()
    paddle.seed(7)
    assert np.array_equal(F.dropout(x, paddle.to_tensor(0.25, "float64")).numpy(), expected)
    with pytest.raises(ValueError, match="p argument"):
        F.dropout(x, paddle.to_tensor(1.5))


@pytest.mark.parametrize("shape, dtype", [([6], "float32"), ([5, 1], "float32"), ([5, 6], "float64")])
def test_fused_dropout_add_of_what_does_not_fit_is_paddles_sum(shape, dtype, rng):
    x, y = tensor(rng.standard_normal([5, 6])), tensor(rng.standard_normal(shape), dtype)
    ours = F.fused_dropout_add(x, y, 0.5, generator=tp.Generator(3))
    expected = F.dropout(x, 0.5, generator=tp.Generator(3)) + y
    assert ours.dtype == expected.dtype and np.array_equal(ours.numpy(), expected.numpy())


@pytest.mark.parametrize("shape", [[50, 9], [5, 10, 9]])
def test_dropout1d_drops_channels(shape):
    y = F.dropout1d(paddle.ones(shape), 0.5).numpy()
    assert (y == y.max(axis=-1, keepdims=True)).all() and 0 < (y == 0).mean() < 1


# ---- random projection ---------------------------------------------------------------------------


def test_random_projection_is_a_product_with_a_sparse_matrix(rng):
    rows, columns, k, s = 5, 70, 16, 3.0
    words = F.philox_words([columns, k], seed=9).numpy().view(np.uint32).astype("int64")
    part = int(2.0**31 / s)  # docs/operators/random_projection.md
    matrix = np.where(words < part, 1.0, np.where(words < 2 * part, -1.0, 0.0)) * math.sqrt(s / k)
    x, dy = rng.standard_normal([rows, columns]), rng.standard_normal([rows, k])
    t = tensor(x, "float64", grad=True)
    y = F.random_projection(t, k, seed=9, s=s)
    np.testing.assert_allclose(y.numpy(), x @ matrix, rtol=1e-12, atol=1e-12)
    y.backward(tensor(dy, "float64"))
    np.testing.assert_allclose(t.grad.numpy(), dy @ matrix.T, rtol=1e-12, atol=1e-12)
