"""JAX's transformations: grad with the bits of the gradient operators, and beside finite differences;
vmap, scan, checkpoint, donation; second derivatives right or refused."""

import core
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from samples import TYPES

import twinops.jax as tj

KEY = jax.random.key(0x1234_5678)
SEED = {"seed": 0x1234_5678}


def gradient(f, x, dy):
    """The gradient of f at x where dy is that of its result."""
    return jax.jit(lambda x, dy: jax.vjp(f, x)[1](dy)[0])(x, dy)


def pair(rng, shape, dtype):
    return [rng.standard_normal(shape).astype(core.dtype(dtype)) for _ in range(2)]


@pytest.mark.covers("gradient")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_gradients(op, dtype, rng, device):
    with jax.enable_x64(dtype == "float64"):
        x, dy = pair(rng, [5, 70], dtype)
        y = core.run(op, {"x": x}, {"scale": 0.5})["out"]
        expected = core.run(op + "_grad", {"y": y, "dy": dy}, {"scale": 0.5})["dx"]
        core.assert_same(gradient(lambda x: getattr(tj, op)(x, scale=0.5), x, dy), expected)


@pytest.mark.covers("gradient")
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_what_is_masked_out_has_no_gradient(op, rng, device):
    x, dy = pair(rng, [5, 7], "float32")
    out, lengths = rng.random([5, 7]) < 0.3, np.array([7, 3, 0, 1, 5], "i4")
    masks = dict(mask=out, lengths=lengths, causal=True, causal_offset=3, masked_rows="zeros")
    f = lambda x: getattr(tj, op)(x, **masks)  # noqa: E731
    out = out | (np.arange(7) >= lengths[:, None]) | (np.arange(7) > np.arange(5)[:, None] + 3)
    values = (0, -0.025, np.nan)[: 3 if op == "log_softmax" else 2]  # probabilities there are 0
    found = [gradient(f, x, np.where(out, np.float32(v), dy)) for v in values]
    assert (np.asarray(found[0])[out] == 0).all() and np.isfinite(found[0]).all()
    for dx in found[1:]:
        assert np.array_equal(dx, found[0])


def test_the_gradient_of_another_type(rng, device):
    x = rng.standard_normal([5, 70]).astype(jnp.bfloat16)
    dy = rng.standard_normal([5, 70]).astype("f4")
    y = core.run("softmax", {"x": x}, asked={"out": "float32"})["out"]
    expected = core.run("softmax_grad", {"y": y, "dy": dy}, asked={"dx": "bfloat16"})["dx"]
    core.assert_same(gradient(lambda x: tj.softmax(x, dtype="float32"), x, dy), expected)


@pytest.mark.covers("gradient", "dropout")
@pytest.mark.parametrize("mask", [None, "bits", "bytes"])
@pytest.mark.parametrize("dtype", TYPES)
def test_dropout_gradients(dtype, mask, rng, device):
    with jax.enable_x64(dtype == "float64"):
        x, dy = pair(rng, [5, 71], dtype)
        expected = core.run("dropout_grad", {"dy": dy}, {"p": 0.3, **SEED})["dx"]
        core.assert_same(gradient(lambda x: tj.dropout(KEY, x, 0.3, mask=mask), x, dy), expected)


@pytest.mark.covers("gradient", "bias_dropout_residual")
@pytest.mark.parametrize("rank", [1, 2])
def test_bias_and_residual_gradients(rank, rng, device):
    x, dy = pair(rng, [6, 41], "float32")
    bias = rng.standard_normal([41] if rank == 1 else [6, 41]).astype("f4")
    f = jax.jit(lambda *a: jax.vjp(lambda *a: tj.bias_dropout_residual(KEY, *a, 0.25), *a)[1](dy))
    dx, dbias, dresidual = f(x, bias, x)
    asked = {"dbias": "same" if rank == 1 else None}
    expected = core.run("bias_dropout_residual_grad", {"dy": dy}, {"p": 0.25, **SEED}, asked)
    core.assert_same(dx, expected["dx"])
    core.assert_same(dbias, expected["dbias"] if rank == 1 else expected["dx"])
    core.assert_same(dresidual, dy)


@pytest.mark.parametrize("shape", [[1, 41], [1, 1, 41], [6, 1], [1], []])
def test_a_bias_that_broadcasts(shape, rng, device):
    x, dy = pair(rng, [6, 41], "float32")
    bias = rng.standard_normal(shape).astype("f4")
    f = lambda x, b: tj.bias_dropout_residual(KEY, x, b, rate=0.25)  # noqa: E731
    whole = np.broadcast_to(bias.reshape(-1) if bias.ndim > 2 else bias, [6, 41])
    core.assert_same(f(x, bias), f(x, whole))
    dx, dbias = jax.vjp(f, x, bias)[1](dy)
    assert dbias.shape == bias.shape
    axes = tuple(i for i in range(2) if whole.shape[i] != ((1, 1) + bias.shape)[-2:][i])
    sums = np.asarray(dx, "f8").sum(axes).reshape(shape)
    np.testing.assert_allclose(dbias, sums, rtol=1e-5, atol=1e-5)


@pytest.mark.covers("gradient", "softmax_dropout")
def test_softmax_dropout_is_the_two_after_each_other(rng, device):
    x, dy = pair(rng, [5, 70], "float32")
    one = lambda x: tj.softmax_dropout(KEY, x, 0.25)  # noqa: E731
    two = lambda x: tj.dropout(KEY, tj.softmax(x), 0.25)  # noqa: E731
    core.assert_same(one(x), two(x))
    core.assert_same(gradient(one, x, dy), gradient(two, x, dy))


def functions(bits):
    bias, where = bits.standard_normal(7), bits.random([5, 7]) < 0.8
    lengths = np.array([7, 3, 0, 1, 5], "i4")
    return {
        "softmax": lambda x: tj.softmax(x, axis=0, scale=0.5),
        "masked softmax": lambda x: tj.softmax(x, where=where, masked_rows="zeros"),
        "log_softmax": lambda x: tj.log_softmax(x),
        "lengths": lambda x: tj.softmax(x, lengths=lengths, masked_rows="zeros"),
        "causal": lambda x: tj.softmax(x, causal=True, causal_offset=2),
        "dropout": lambda x: tj.dropout(KEY, x, 0.3),
        "shared dropout": lambda x: tj.dropout(KEY, x, 0.3, broadcast_dims=(0,)),
        "bias_dropout_residual": lambda x: tj.bias_dropout_residual(KEY, x, bias, x, 0.3),
        "softmax_dropout": lambda x: tj.softmax_dropout(KEY, x, 0.3),
        "random_projection": lambda x: tj.random_projection(KEY, x, 4),
    }


NAMES = list(functions(np.random.default_rng(0)))
LINEAR = ["dropout", "shared dropout", "random_projection"]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_beside_finite_differences(name, rng, device):
    with jax.enable_x64(True):
        f, x = functions(rng)[name], rng.standard_normal([5, 7])
        check_grads(f, (x,), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.covers("gradient", "dropout_grad", "random_projection", "random_projection_grad")
@pytest.mark.parametrize("name", LINEAR)
def test_gradients_of_gradients(name, rng, device):
    with jax.enable_x64(True):
        f, x = functions(rng)[name], rng.standard_normal([5, 7])
        check_grads(lambda x: jnp.sum(f(x) ** 3), (x,), order=3, modes=["rev"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(LINEAR)))
def test_other_second_derivatives_are_refused(name, rng, device):
    with jax.enable_x64(True):
        f, x = functions(rng)[name], rng.standard_normal([5, 7])
        g = lambda x: jnp.sum(f(x) ** 3)  # noqa: E731
        with pytest.raises(Exception, match="cannot be differentiated"):
            jax.grad(lambda x: jnp.sum(jax.grad(g)(x)))(x)


def test_forward_mode_is_refused():
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(tj.softmax, (np.ones(3, "f4"),), (np.ones(3, "f4"),))


@pytest.mark.covers("gradient")
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", TYPES)
def test_the_gradient_of_a_mask(dtype, op, rng, device):
    with jax.enable_x64(dtype == "float64"):
        x, dy = pair(rng, [4, 5, 7], dtype)
        mask = rng.standard_normal([5, 1]).astype(core.dtype(dtype))
        f = lambda m: getattr(tj, op)(x, mask=m, scale=0.5)  # noqa: E731
        inputs = {"x": x, "mask": mask[None]}
        y = core.run(op, inputs, {"scale": 0.5})["out"]
        given = {"y": y, "dy": dy, "mask": mask[None]}
        expected = core.run(op + "_grad", given, {"scale": 0.5}, asked={"dmask": "same"})["dmask"]
        core.assert_same(gradient(f, mask, dy), np.asarray(expected)[0])


def test_gradients_of_masks_beside_finite_differences(rng, device):
    with jax.enable_x64(True):
        x, m = rng.standard_normal([3, 5, 7]), rng.standard_normal([5, 1])
        for f in (
            lambda x, m: tj.softmax(x, mask=m, scale=0.5),
            lambda x, m: tj.log_softmax(x, axis=0, mask=m),
            lambda x, m: tj.softmax_dropout(KEY, x, 0.3, mask=m),
            lambda x, m: tj.softmax(x, bias=m, where=np.arange(7) != 3),
            lambda x, m: tj.log_softmax(x, bias=m, mask=x[0] * 0.5),
            jax.vmap(lambda x, m: tj.softmax(x, mask=m, causal=True), (0, None)),
        ):
            check_grads(f, (x, m), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


# ---- vmap, scan, checkpoint ----------------------------------------------------------------------


def one_by_one(f, *batches):
    return jnp.stack([f(*(b[i] for b in batches)) for i in range(len(batches[0]))])


@pytest.mark.parametrize("in_axis", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_vmap_of_softmax(axis, in_axis, rng, device):
    x = rng.standard_normal([3, 4, 5]).astype("f4")
    f = lambda x: tj.softmax(x, axis=axis)  # noqa: E731
    expected = one_by_one(f, np.moveaxis(x, in_axis, 0))
    core.assert_same(jax.jit(jax.vmap(f, in_axis))(x), expected)
    g = jax.grad(lambda x: (f(x) ** 2).sum())
    core.assert_same(jax.vmap(g, in_axis)(x), one_by_one(g, np.moveaxis(x, in_axis, 0)))


def test_vmap_of_masks_and_lengths(rng, device):
    x = rng.standard_normal([3, 4, 5]).astype("f4")
    mask, lengths = rng.random([3, 5]) < 0.3, rng.integers(1, 6, [3, 4]).astype("i4")
    f = lambda x, m, n: tj.log_softmax(x, mask=m, lengths=n)  # noqa: E731
    core.assert_same(jax.vmap(f)(x, mask, lengths), one_by_one(f, x, mask, lengths))
    g = jax.vmap(lambda m: tj.softmax(x[0], mask=m, masked_rows="zeros"))  # x is not mapped
    core.assert_same(g(mask), one_by_one(lambda m: tj.softmax(x[0], mask=m, masked_rows="zeros"), mask))


def test_vmap_of_keys_and_of_what_they_drop(rng, device):
    x, keys = rng.standard_normal([3, 4, 5]).astype("f4"), jax.random.split(KEY, 3)
    f = lambda k, x: tj.dropout(k, x, 0.4)  # noqa: E731
    core.assert_same(jax.vmap(f)(keys, x), one_by_one(f, keys, x))
    same = jax.vmap(f, (None, 0))(KEY, x)  # one key is one mask
    core.assert_same(same, one_by_one(lambda x: f(KEY, x), x))
    g = lambda k, x: jax.grad(lambda x: (f(k, x) ** 2).sum())(x)  # noqa: E731
    core.assert_same(jax.vmap(g)(keys, x), one_by_one(g, keys, x))


def test_scan_and_checkpoint(rng, device):
    x, keys = rng.standard_normal([4, 50]).astype("f4"), jax.random.split(KEY, 5)

    def layer(x, key):
        return x + tj.dropout(key, tj.softmax(x), 0.3), None

    def loss(layer, x):
        return (jax.lax.scan(layer, x, keys)[0] ** 2).sum()

    def unrolled(x):
        for i in range(5):
            x = layer(x, keys[i])[0]
        return (x**2).sum()

    expected = jax.jit(jax.value_and_grad(unrolled))(x)
    for f in (layer, jax.checkpoint(layer)):
        value, dx = jax.jit(jax.value_and_grad(lambda x: loss(f, x)))(x)
        core.assert_same(dx, expected[1])


def test_checkpoint_draws_the_same_mask_again(rng, device):
    x = rng.standard_normal([4, 50]).astype("f4")
    f = lambda x: jnp.sin(tj.dropout(KEY, x, 0.3))  # noqa: E731
    dy = np.ones_like(x)
    core.assert_same(gradient(jax.checkpoint(f), x, dy), gradient(f, x, dy))


# ---- donation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "dropout"])
def test_a_donated_array_is_written_over(name, rng, device):
    f = {
        "softmax": lambda x: tj.softmax(x, in_place=True),
        "log_softmax": lambda x: tj.log_softmax(x, in_place=True),
        "dropout": lambda x: tj.dropout(KEY, x, in_place=True),
    }[name]
    x = rng.standard_normal([4, 1000]).astype("f4")
    expected = np.asarray(f(jnp.asarray(x)))
    kept = jnp.array(x)
    core.assert_same(jax.jit(f)(kept), expected)  # not donated: XLA copies it first
    core.assert_same(kept, x)
    given = jnp.array(x)
    address = given.unsafe_buffer_pointer()
    y = jax.jit(f, donate_argnums=0)(given)
    assert given.is_deleted() and y.unsafe_buffer_pointer() == address
    core.assert_same(y, expected)


def test_a_result_of_another_type_is_written_elsewhere(rng, device):
    x = rng.standard_normal([4, 10]).astype("f4")
    for name in ("float16", "float32", "bfloat16"):
        core.assert_same(tj.softmax(x, dtype=name, in_place=True), tj.softmax(x, dtype=name))


def test_donated_gradients_are_unscaled_in_place(rng, device):
    tree = {"a": jnp.array(rng.standard_normal(3000).astype("f4")), "b": jnp.ones([7], jnp.bfloat16)}
    addresses = jax.tree.map(lambda x: x.unsafe_buffer_pointer(), tree)
    expected = tj.check_finite_and_unscale(tree, np.float32(4))[0]
    unscale = jax.jit(lambda t: tj.check_finite_and_unscale(t, np.float32(4)), donate_argnums=0)
    results, found = unscale(tree)
    assert not found
    assert jax.tree.map(lambda x: x.unsafe_buffer_pointer(), results) == addresses
    jax.tree.map(core.assert_same, results, expected)


# ---- export --------------------------------------------------------------------------------------


SOFTMAX = "softmax", "softmax_grad", "softmax_dropout"


def test_programs_are_exported_with_shapes_left_open(rng):
    x, bias = rng.standard_normal([5, 12]).astype("f4"), rng.standard_normal(12).astype("f4")

    def step(key, x, bias):
        loss = lambda x, bias: (tj.dropout(key, tj.softmax(x, bias=bias)) ** 2).sum()  # noqa: E731
        return tj.softmax_dropout(key, x), jax.grad(loss, (0, 1))(x, bias)

    rows, columns = jax.export.symbolic_shape("rows, columns")
    names = ("dropout", "dropout_grad", *(f"{op}_with_scratch" for op in SOFTMAX))
    ours = [jax.export.DisabledSafetyCheck.custom_call(f"twinops_{n}") for n in names]
    shapes = [jax.ShapeDtypeStruct(s, "f4") for s in ((rows, columns), (columns,))]
    program = jax.export.export(jax.jit(step), disabled_checks=ours)(KEY, *shapes)
    found = jax.export.deserialize(program.serialize()).call(KEY, x, bias)
    jax.tree.map(core.assert_same, found, jax.jit(step)(KEY, x, bias))
