"""From a key to a mask: the rule of twinops/jax/keys.py, held to the core; and shards inside shard_map,
which draw the whole's mask."""

import functools

import core
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import twinops.jax as tj

SHAPE = (5, 7)


def words(seed, offset=0, subsequence=0):
    attributes = {"seed": seed, "offset": offset, "subsequence": subsequence}
    return core.run("philox_words", {}, attributes, shape=SHAPE)["words"]


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**32 - 1])
def test_the_key_of_a_seed_is_the_seed_of_every_host(seed, device):
    expected = words(seed)
    core.assert_same(tj.philox_words(jax.random.key(seed), SHAPE), expected)
    core.assert_same(tj.philox_words(jax.random.PRNGKey(seed), SHAPE), expected)
    core.assert_same(tj.philox_words(seed, SHAPE), expected)
    core.assert_same(jax.jit(lambda k: tj.philox_words(k, SHAPE))(jax.random.key(seed)), expected)


def test_a_key_is_its_words(rng, device):
    a, b = (int(w) for w in rng.integers(0, 2**32, 2))
    key = jax.random.wrap_key_data(jnp.array([a, b], jnp.uint32))
    core.assert_same(tj.philox_words(key, SHAPE), words((a << 32 | b) - (a >> 31 << 64)))
    with jax.enable_x64(True):
        core.assert_same(tj.philox_words(key, SHAPE), words((a << 32 | b) - (a >> 31 << 64)))


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_a_key_of_four_words_has_an_offset(impl, rng, device):
    a, b, c, d = (int(w) for w in rng.integers(0, 2**31, 4))
    key = jax.random.wrap_key_data(jnp.array([a, b, c, d], jnp.uint32), impl=impl)
    core.assert_same(tj.philox_words(key, SHAPE), words(a << 32 | b, (c << 32 | d) & ~3))


def test_subsequence_and_offset(device):
    key = jax.random.key(3)
    core.assert_same(tj.philox_words(key, SHAPE, subsequence=5, offset=8), words(3, 8, 5))
    x = np.ones(SHAPE, "f4")
    y = tj.dropout(key, x, subsequence=5, offset=8)
    attributes = {"seed": 3, "subsequence": 5, "offset": 8}
    core.assert_same(y, core.run("dropout", {"x": x}, attributes)["y"])


def test_uniform_is_curands(device):
    expected = core.run("uniform", {}, {"seed": 3}, shape=SHAPE)["out"]
    core.assert_same(tj.uniform(jax.random.key(3), SHAPE), expected)


def test_split_keys_draw_apart():
    masks = [tj.dropout(k, np.ones(64, "f4")) for k in jax.random.split(jax.random.key(0), 8)]
    assert len({m.tobytes() for m in map(np.asarray, masks)}) == 8


# ---- shards --------------------------------------------------------------------------------------


def mesh(kind=jax.sharding.AxisType.Auto):
    devices = np.array(jax.devices("cpu")[:4]).reshape(2, 2)
    return jax.sharding.Mesh(devices, ("a", "b"), axis_types=(kind,) * 2)


def sharded(f, spec, out=None):
    specs = {"in_specs": (P(), spec), "out_specs": out or spec}
    return jax.jit(jax.shard_map(f, mesh=mesh(), **specs))


KEYS = {"threefry": jax.random.key(9), "rbg": jax.random.key(9, impl="rbg"), "seed": 9}


@pytest.mark.covers("sharded", "dropout", "dropout_grad")
@pytest.mark.parametrize(
    "shape, spec, key",
    [
        ((8, 16), P("a", "b"), "threefry"),
        ((8, 16), P(None, ("a", "b")), "rbg"),
        ((4, 2, 12), P("b", None, "a"), "threefry"),
        # Shards that begin inside a block of four words.
        ((6, 10), P("b", "a"), "seed"),
        ((6, 6), P("a", "b"), "threefry"),
        ((6, 6), P("a"), "rbg"),
    ],
)
def test_a_shard_draws_the_whole_mask(shape, spec, key, rng):
    x = rng.standard_normal(shape).astype("f4")
    key = KEYS[key]
    drop = lambda k, x, **more: tj.dropout(k, x, 0.3, **more)  # noqa: E731
    if isinstance(key, int):
        parts = sharded(lambda _, x: drop(9, x, spec=spec), spec)
        core.assert_same(parts(np.zeros(1), x), drop(key, x))
        return
    parts = sharded(lambda k, x: drop(k, x, spec=spec), spec)
    core.assert_same(parts(key, x), drop(key, x))
    ours = jax.grad(lambda x: (parts(key, x) ** 2).sum())(x)
    core.assert_same(ours, jax.grad(lambda x: (drop(key, x) ** 2).sum())(x))


@pytest.mark.covers("sharded", "bias_dropout_residual", "softmax_dropout", "philox_words", "uniform")
def test_a_shard_of_everything_that_draws(rng):
    x, bias = rng.standard_normal([8, 16]).astype("f4"), rng.standard_normal([16]).astype("f4")
    key, spec = KEYS["threefry"], P("a")
    for f in (
        lambda k, x, **more: tj.bias_dropout_residual(k, x, bias, x, 0.3, **more),
        lambda k, x, **more: tj.softmax_dropout(k, x, 0.3, **more),
        lambda k, x, **more: tj.dropout(k, x, 0.3, broadcast_dims=(1,), **more),
        lambda k, x, **more: tj.dropout(k, x, 0.3, broadcast_dims=(0,), **more),
    ):
        core.assert_same(sharded(lambda k, x: f(k, x, spec=spec), spec)(key, x), f(key, x))
    for fill in (tj.philox_words, tj.uniform):
        part = sharded(lambda k, x: fill(k, x.shape, spec=spec), spec)  # noqa: B023
        core.assert_same(part(key, x), fill(key, x.shape))


@pytest.mark.covers("sharded", "softmax", "softmax_grad", "log_softmax", "log_softmax_grad")
@pytest.mark.covers("sharded", "check_finite_and_unscale")
def test_softmax_and_unscaling_of_shards(rng):
    x = rng.standard_normal([8, 16]).astype("f4")
    for f in (tj.softmax, tj.log_softmax):
        core.assert_same(sharded(lambda _, x: f(x), P("a"))(np.zeros(1), x), f(x))  # noqa: B023
        loss = lambda f, x: (f(x) ** 2).sum()  # noqa: E731
        part = lambda x: sharded(lambda _, x: f(x), P("a"))(np.zeros(1), x)  # noqa: B023, E731
        ours, whole = (jax.grad(loss, 1)(g, x) for g in (part, f))
        core.assert_same(ours, whole)
    x[5, 3] = np.inf

    def unscale(_, x):
        y, found = tj.check_finite_and_unscale(x, np.float32(4))
        return y, jax.lax.psum(found.astype("int32"), ("a", "b"))

    y, found = sharded(unscale, P("a", "b"), (P("a", "b"), P()))(np.zeros(1), x)
    core.assert_same(y, tj.check_finite_and_unscale(x, np.float32(4))[0])
    assert found == 1


SHARED = {
    "mask": lambda key, x, m, spec: tj.softmax(x, mask=m),
    "bias": lambda key, x, m, spec: tj.log_softmax(x, bias=m),
    "dropped bias": lambda key, x, m, spec: tj.bias_dropout_residual(key, x, m, x, 0.3, spec=spec),
    "residual": lambda key, x, m, spec: tj.bias_dropout_residual(
        key, x, None, jnp.broadcast_to(m, x.shape), 0.3, spec=spec
    ),
    "x": lambda key, x, m, spec: tj.softmax(jnp.broadcast_to(m, x.shape), mask=x),
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", SHARED)
def test_the_gradient_of_what_all_shards_share_is_their_sum(name, check, rng):
    x, m = rng.standard_normal([8, 16]).astype("f4"), rng.standard_normal(16).astype("f4")
    f, specs = SHARED[name], {"in_specs": (P(), P("a"), P()), "out_specs": P("a")}
    part = functools.partial(f, spec=P("a"))
    part = jax.shard_map(part, mesh=mesh(), check_vma=check, **specs)
    whole = functools.partial(f, spec=None)
    dx = lambda f: jax.jit(jax.grad(lambda *a: (f(KEYS["rbg"], *a) ** 2).sum(), (0, 1)))(x, m)  # noqa: E731
    for ours, expected in zip(dx(part), dx(whole)):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_shards_that_jit_makes_itself(rng):
    """Without shard_map XLA brings the parts together: slower, and the same bits."""
    x = rng.standard_normal([8, 16]).astype("f4")
    there = jax.device_put(x, jax.sharding.NamedSharding(mesh(), P("a", "b")))
    core.assert_same(jax.jit(tj.softmax)(there), tj.softmax(x))
    core.assert_same(jax.jit(tj.dropout)(KEYS["threefry"], there), tj.dropout(KEYS["threefry"], x))


def test_gradients_where_the_sharding_is_part_of_the_type(rng):
    x = rng.standard_normal([8, 16]).astype("f4")
    explicit = mesh(jax.sharding.AxisType.Explicit)
    there = jax.device_put(x, jax.sharding.NamedSharding(explicit, P("a", "b")))
    for f in (tj.softmax, lambda x: tj.dropout(9, x, 0.3)):
        dx = jax.grad(lambda x: (f(x) ** 2).sum())  # noqa: B023
        with jax.set_mesh(explicit):
            ours = jax.jit(dx)(there)
        assert jax.typeof(ours).sharding == jax.typeof(there).sharding
        core.assert_same(ours, dx(x))


def test_a_spec_of_too_many_dimensions_is_refused():
    with pytest.raises(ValueError, match="spec has 2 entries"):
        f = lambda k, x: tj.dropout(k, x, spec=P("a", "b"))  # noqa: E731
        jax.shard_map(f, mesh=mesh(), in_specs=(P(), P("a")), out_specs=P("a"))(KEYS["rbg"], np.ones(4))
