"""Dropout for models of flax, and of anything else that hands out keys."""

import jax

from twinops.jax.functional import dropout


class Dropout:
    """flax's Dropout(rate, broadcast_dims, deterministic), without flax: it has no parameters and no
    state, so a module may hold it as it is.

        Dropout(0.1)(x, rng=self.make_rng("dropout"))             # flax.linen
        Dropout(0.1)(x, rngs=rngs, deterministic=not training)    # flax.nnx: rngs.dropout()
    """

    def __init__(self, rate, broadcast_dims=(), deterministic=False, *, mask=None):
        self.rate, self.broadcast_dims = rate, tuple(broadcast_dims)
        self.deterministic, self.mask = deterministic, mask

    def __call__(self, x, deterministic=None, rng=None, *, rngs=None, spec=None):
        """dropout of x. deterministic: overrides the layer's. rng: a key; rngs: an object whose
        dropout() gives the next one. spec: of x, inside shard_map. ValueError if a key is needed and
        none is given."""
        deterministic = self.deterministic if deterministic is None else deterministic
        if deterministic or self.rate == 0:
            return x
        if rng is None and rngs is not None:
            rng = rngs if _is_key(rngs) else rngs.dropout()
        if rng is None:
            raise ValueError("Dropout needs a key: rng=key, or rngs= an object that has dropout()")
        return dropout(
            rng, x, self.rate, broadcast_dims=self.broadcast_dims, mask=self.mask, spec=spec
        )

    # Equal layers are one static value to jit.
    def _key(self):
        return self.rate, self.broadcast_dims, self.deterministic, self.mask

    def __eq__(self, other):
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        return f"Dropout(rate={self.rate}, broadcast_dims={self.broadcast_dims})"


def _is_key(value):
    return isinstance(value, jax.Array)
