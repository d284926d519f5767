"""twinops.paddle.functional and the layers: Paddle's own results as a second opinion, Paddle's
published cases for these operators, gradients against finite differences."""

import math

import numpy as np
import paddle
import pytest

import twinops.paddle as tp

F = tp.functional
P = paddle.nn.functional


def tensor(array, dtype="float32", grad=False):
    t = paddle.to_tensor(np.asarray(array)).astype(dtype)
    t.stop_gradient = not grad
    return t


def finite_differences(f, x, dy, step=1e-5):
    """d sum(f(x) * dy) / dx, by central differences in float64."""
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * step
            ends.append(float((f(tensor(moved, "float64")).numpy() * dy).sum()))
        gradient[i] = (ends[0] - ends[1]) / (2 * step)
    return gradient


# ---- softmax -------------------------------------------------------------------------------------

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
    ours = np.abs(getattr(F, name)(tensor(x)).numpy() - exact).max()
    theirs = np.abs(getattr(P, name)(tensor(x)).numpy() - exact).max()
    assert ours <= theirs * 1.01, (ours, theirs)


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
    """Whatever comes for it: a NaN, or the gradient of a loss that smooths labels."""
    out = rng.random([8, 8]) < 0.3
    mask, lengths = tensor(out, "bool"), tensor([5, 3], "int32")
    out = out | (np.arange(8) >= np.array([5, 3])[:, None, None])

    def f(x):
        return getattr(F, op)(x, mask=mask, lengths=lengths)

    f = paddle.jit.to_static(f, full_graph=True) if traced else f
    array, dy, found = rng.standard_normal([2, 8, 8]), rng.standard_normal([2, 8, 8]), []
    for value in (0, math.nan, -0.025):
        x = tensor(array, grad=True)
        f(x).backward(tensor(np.where(out, value, dy)))
        found.append(x.grad.numpy())
    assert (found[0][out] == 0).all() and np.isfinite(found[0]).all()
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


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


# ---- dropout -------------------------------------------------------------------------------------


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
    y = F.dropout(paddle.ones([8, 9, 10]), 0.5, axis=axis).numpy()
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


MASKED = {
    "softmax": lambda x, m: F.softmax(x, mask=m, scale=0.7),
    "log_softmax": lambda x, m: F.log_softmax(x, 1, mask=m),
    "fused_softmax_mask": lambda x, m: F.fused_softmax_mask(x, m),
    "softmax_dropout": lambda x, m: F.softmax_dropout(x, 0.4, mask=m, generator=tp.Generator(7)),
    "a bias": lambda x, m: F.softmax(x, bias=m, mask=x[0] > 1.0, lengths=paddle.to_tensor([6, 2, 4, 6])),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("of_x", [False, True])
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_that_asks_for_a_gradient_gets_it(name, of_x, traced, rng):
    x, mask, dy = (rng.standard_normal(shape) for shape in ([4, 3, 5, 6], [3, 1, 6], [4, 3, 5, 6]))
    if traced and name == "softmax_dropout":
        pytest.skip("a program draws its seed when it runs")
    f = paddle.jit.to_static(MASKED[name], full_graph=True) if traced else MASKED[name]
    x_given, m = tensor(x, "float64", grad=of_x), tensor(mask, "float64", grad=True)
    f(x_given, m).backward(tensor(dy, "float64"))
    expected = finite_differences(lambda u: MASKED[name](tensor(x, "float64"), u), mask, dy)
    np.testing.assert_allclose(m.grad.numpy(), expected, rtol=1e-6, atol=1e-7)
    assert (x_given.grad is not None) == of_x
    with paddle.no_grad():
        f(x_given, m)


def test_a_second_derivative_beside_a_masks_gradient_is_refused(rng):
    x, mask = (tensor(rng.standard_normal([2, 3]), grad=True) for _ in range(2))
    with pytest.raises(NotImplementedError, match="whose mask has a gradient"):
        paddle.grad(F.softmax(x, mask=mask).square().sum(), x, create_graph=True)


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


@pytest.mark.parametrize("shape", [[8, 9], [4, 8, 9]])
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


# ---- layers and patch ----------------------------------------------------------------------------


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
