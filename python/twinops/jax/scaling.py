"""Dynamic loss scaling for float16: flax's DynamicScale and a wrapper for optimizers of optax, computed
by twinops' two operators."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twinops.jax.functional import check_finite_and_unscale, update_loss_scaling


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["scale", "good_steps", "bad_steps"],
    meta_fields=["growth_factor", "backoff_factor", "growth_interval", "bad_interval", "minimum_scale"],
)
@dataclasses.dataclass(frozen=True)
class DynamicScale:
    """The scale of a loss and how it moves: a pytree, so that it goes through jit, scan and checkpoints.

    The scale (float32) grows by growth_factor after growth_interval finite steps, and shrinks by
    backoff_factor, not below minimum_scale, after bad_interval steps in a row with a value that is not
    finite.
    """

    scale: Any = 65536.0
    good_steps: Any = 0
    bad_steps: Any = 0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    bad_interval: int = 1
    minimum_scale: float = 1.0

    def unscale(self, gradients):
        """(gradients / scale, found_inf): one call for all of a tree."""
        return check_finite_and_unscale(gradients, jnp.asarray(self.scale, jnp.float32))

    def update(self, found_inf):
        """The scale of the next step."""
        state = update_loss_scaling(
            [],
            found_inf,
            jnp.asarray(self.scale, jnp.float32),
            jnp.asarray(self.good_steps, jnp.int32),
            jnp.asarray(self.bad_steps, jnp.int32),
            incr_every_n_steps=self.growth_interval,
            decr_every_n_nan_or_inf=self.bad_interval,
            incr_ratio=self.growth_factor,
            decr_ratio=self.backoff_factor,
            min_scale=self.minimum_scale,
        )[1:]
        return dataclasses.replace(self, **dict(zip(("scale", "good_steps", "bad_steps"), state)))

    def value_and_grad(self, fun, argnums=0, has_aux=False, axis_name=None):
        """As flax.training.dynamic_scale's: a function that gives (next scale, is_finite, value or
        (value, aux), gradients). axis_name: of a mapped axis to average the gradients over."""

        @functools.wraps(fun)
        def scaled_fun(*arguments):
            value = fun(*arguments)
            loss = value[0] if has_aux else value
            return loss * jnp.asarray(self.scale).astype(loss.dtype), value

        differentiate = jax.grad(scaled_fun, argnums, has_aux=True)

        @functools.wraps(fun)
        def value_and_grad(*arguments):
            gradients, value = differentiate(*arguments)
            if axis_name is not None:
                gradients = jax.lax.pmean(gradients, axis_name)
            gradients, found = self.unscale(gradients)
            return self.update(found), ~found, value, gradients

        return value_and_grad


class ScaledState(NamedTuple):
    """scale: a DynamicScale; inner: the optimizer's own state."""

    scale: Any
    inner: Any


class _Transformation(NamedTuple):  # what optax calls a GradientTransformation
    init: Any
    update: Any


def scaled(optimizer, scale=DynamicScale()):
    """An optimizer of optax for gradients of `loss * state.scale.scale`: they are unscaled, a step whose
    gradients are not finite changes nothing but the scale, and the state is (scale, inner)."""

    def init(parameters):
        start = dataclasses.replace(
            scale,
            scale=jnp.asarray(scale.scale, jnp.float32),
            good_steps=jnp.asarray(scale.good_steps, jnp.int32),
            bad_steps=jnp.asarray(scale.bad_steps, jnp.int32),
        )
        return ScaledState(start, optimizer.init(parameters))

    def update(gradients, state, parameters=None, **more):
        gradients, found = state.scale.unscale(gradients)
        updates, inner = optimizer.update(gradients, state.inner, parameters, **more)
        updates = jax.tree.map(lambda u: jnp.where(found, jnp.zeros_like(u), u), updates)
        inner = jax.tree.map(lambda new, old: jnp.where(found, old, new), inner, state.inner)
        return updates, ScaledState(state.scale.update(found), inner)

    return _Transformation(init, update)
