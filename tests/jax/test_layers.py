"""Dropout and DynamicScale as flax and optax users call them. Neither is needed, so each has a stand-in
here that does what its documentation says."""

from typing import NamedTuple

import core
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import twinops.jax as tj

X = np.ones([4, 50], "f4")


class Rngs:
    """flax.nnx.Rngs: dropout() gives a new key at each call."""

    def __init__(self, seed):
        self.key, self.count = jax.random.key(seed), 0

    def dropout(self):
        self.count += 1
        return jax.random.fold_in(self.key, self.count)


def test_dropout_takes_keys_as_flax_gives_them():
    layer, key = tj.Dropout(0.25), jax.random.key(1)
    expected = tj.dropout(key, X, 0.25)
    core.assert_same(layer(X, rng=key), expected)
    core.assert_same(layer(X, rngs=key), expected)
    rngs = Rngs(1)
    first, second = layer(X, rngs=rngs), layer(X, rngs=rngs)
    assert rngs.count == 2 and (first != second).any()
    rows = tj.Dropout(0.25, broadcast_dims=[1])(X, rng=key)
    core.assert_same(rows, tj.dropout(key, X, 0.25, broadcast_dims=(1,)))


def test_dropout_needs_no_key_where_nothing_is_dropped():
    assert tj.Dropout(0.25)(X, deterministic=True) is X
    assert tj.Dropout(0.25, deterministic=True)(X) is X
    assert tj.Dropout(0)(X) is X
    core.assert_same(tj.dropout(None, X, 0.25, deterministic=True), X)
    with pytest.raises(ValueError, match="needs a key"):
        tj.Dropout(0.25)(X)
    with pytest.raises(ValueError, match="needs a key"):
        tj.Dropout(0.25, deterministic=True)(X, deterministic=False)


def test_equal_layers_are_one_program():
    traced = []

    def f(layer, key, x):
        traced.append(layer)
        return layer(x, rng=key)

    f = jax.jit(f, static_argnums=0)
    for _ in range(2):
        f(tj.Dropout(0.25), jax.random.key(1), X)
    assert len(traced) == 1


# ---- loss scaling --------------------------------------------------------------------------------


def loss(w, x):
    return ((x @ w.astype(x.dtype)) ** 2).mean()


def test_the_floor_of_a_scale_is_the_callers(device):
    found = jnp.asarray(True)
    assert tj.DynamicScale(scale=0.25).update(found).scale == 0.25
    assert tj.DynamicScale(scale=0.25, minimum_scale=0.2).update(found).scale == jnp.float32(0.2)


def test_value_and_grad_is_flaxs(device):
    scale = tj.DynamicScale(scale=2.0**15, growth_interval=2)
    w, x = jnp.ones([50], jnp.float32), jnp.asarray(X)

    @jax.jit
    def step(scale, w, x):
        scale, is_finite, value, gradient = scale.value_and_grad(loss)(w, x)
        return scale, is_finite, value, gradient

    scales = []
    for _ in range(4):
        scale, is_finite, value, gradient = step(scale, w, x)
        assert is_finite and value == loss(w, x)
        np.testing.assert_allclose(gradient, jax.grad(loss)(w, x), rtol=1e-6)
        scales.append(float(scale.scale))
    assert scales == [2.0**15, 2.0**16, 2.0**16, 2.0**17]
    scale, is_finite, _, _ = step(scale, w, x * np.inf)
    assert not is_finite and scale.scale == 2.0**16 and scale.good_steps == 0


def test_value_and_grad_with_aux_and_several_arguments():
    f = lambda w, x: (loss(w, x), {"n": 3})  # noqa: E731
    w, x = jnp.ones([50]), jnp.asarray(X)
    differentiate = tj.DynamicScale().value_and_grad(f, argnums=(0, 1), has_aux=True)
    _, is_finite, (value, aux), gradients = differentiate(w, x)
    assert is_finite and value == loss(w, x) and aux == {"n": 3}
    for ours, theirs in zip(gradients, jax.grad(loss, (0, 1))(w, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_gradients_are_averaged_over_a_mapped_axis():
    w, x = jnp.ones([50]), jnp.stack([X, 3 * X])
    f = lambda x: tj.DynamicScale().value_and_grad(loss, axis_name="i")(w, x)[3]  # noqa: E731
    ours = jax.vmap(f, axis_name="i")(x)
    np.testing.assert_allclose(ours[0], (jax.grad(loss)(w, x[0]) + jax.grad(loss)(w, x[1])) / 2)


class Sgd(NamedTuple):
    """What optax.sgd(rate) is: init and update, with a count for its state."""

    rate: float

    def init(self, parameters):
        return jnp.int32(0)

    def update(self, gradients, state, parameters=None):
        return jax.tree.map(lambda g: -self.rate * g, gradients), state + 1


def test_scaled_optimizers_skip_what_is_not_finite():
    optimizer = tj.scaled(Sgd(0.5), tj.DynamicScale(scale=1024.0))
    w = {"w": jnp.ones([50])}
    state = optimizer.init(w)

    @jax.jit
    def step(w, state, x):
        gradients = jax.grad(lambda w: loss(w["w"], x) * state.scale.scale)(w)
        updates, state = optimizer.update(gradients, state, w)
        return jax.tree.map(jnp.add, w, updates), state

    after, state = step(w, state, X)
    expected = w["w"] - 0.5 * jax.grad(loss)(w["w"], X)
    np.testing.assert_allclose(after["w"], expected, rtol=1e-6)
    assert state.inner == 1
    again, state = step(after, state, X * np.nan)
    core.assert_same(again["w"], after["w"])
    assert state.inner == 1 and state.scale.scale == 512


def test_mixed_trees_and_empty_ones(rng):
    tree = {"a": rng.standard_normal([3, 5]).astype("f2"), "b": [rng.standard_normal(7).astype("f4")]}
    ours, found = tj.check_finite_and_unscale(tree, np.float32(3))
    xs = [tree["a"], tree["b"][0]]
    expected = core.run("check_finite_and_unscale", {"x": xs, "scale": np.full([1], 3, "f4")})
    for a, b in zip(jax.tree.leaves(ours), expected["out"], strict=True):
        core.assert_same(a, b)
    assert not found and found.shape == ()
    assert tj.check_finite_and_unscale({}, np.float32(3)) == ({}, False)


@pytest.mark.parametrize("wide", [False, True])
def test_pythons_numbers_are_a_state(wide):
    with jax.enable_x64(wide):
        (half,), found = tj.check_finite_and_unscale([jnp.ones(3, "float32")], 2)
        assert (half == 0.5).all() and not found
        scale, good, bad = tj.update_loss_scaling([], False, 1024.0, 0, 0)[1:]
        assert (scale.dtype, good.dtype, bad.dtype) == ("float32", "int32", "int32")
        assert (scale, good, bad) == (1024, 1, 0)


def test_what_was_found_zeroes_the_tree():
    counts = np.int32(0), np.int32(0)
    tree, scale, good, bad = tj.update_loss_scaling(
        {"a": X}, np.bool_(True), np.float32(8), *counts, decr_every_n_nan_or_inf=1
    )
    assert not tree["a"].any() and (scale, good, bad) == (4, 0, 0)


# ---- the real ones, where they are installed -------------------------------------------------------


def test_optax(device):
    optax = pytest.importorskip("optax")
    optimizer = optax.chain(optax.clip(1e9), tj.scaled(optax.adam(1e-2), tj.DynamicScale(1024.0)))
    w = jnp.ones([50])
    state = optimizer.init(w)
    for x, moves in ((X, True), (X * np.nan, False)):
        gradients = jax.grad(lambda w: loss(w, x) * state[1].scale.scale)(w)  # noqa: B023
        updates, state = optimizer.update(gradients, state, w)
        assert (updates != 0).all() if moves else not updates.any()
    assert state[1].scale.scale == 512


def test_flax_linen():
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):
        @linen.compact
        def __call__(self, x):
            return tj.Dropout(0.5)(x, rng=self.make_rng("dropout"))

    y, again = (Model().apply({}, X, rngs={"dropout": jax.random.key(2)}) for _ in range(2))
    core.assert_same(y, again)
    assert set(np.unique(y)) == {0, 2}


def test_flax_nnx():
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.dropout, self.rngs = tj.Dropout(0.5), rngs

        def __call__(self, x):
            return self.dropout(x, rngs=self.rngs)

    model = Model(nnx.Rngs(dropout=1))
    run = nnx.jit(lambda model, x: model(x))
    first, second = run(model, X), run(model, X)
    assert set(np.unique(first)) == {0, 2} and (first != second).any()
