"""From JAX's keys to twinops' random sequence, and from a piece of an array to the whole's.

The rule: a key's first two words are the seed, the first of them its upper half, so that
`jax.random.key(7)` is the seed 7 of every other host. Where an implementation has four words (rbg,
unsafe_rbg), the other two are the offset, its low two bits ignored. An int is the seed itself. The
subsequence is 0, or what the call says. Two calls with one key draw the same words, as in jax.random:
split keys, or give each call a subsequence of its own.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np


def seed_of(key):
    """{attribute: value} of a key that is an int; empty if it is an array."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return {"seed": int(key)}
    if not isinstance(key, (jax.Array, np.ndarray)):
        raise TypeError(f"expected a JAX key or an int for a seed; got {type(key).__name__}")
    return {}


def words_of(key):
    """{input: array of words} of a key for what the operators call seed and offset."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    if key.dtype != jnp.uint32 or key.shape not in ((2,), (4,)):
        raise TypeError(
            "expected one JAX key (jax.random.key, or uint32 of 2 or 4 words); got "
            f"{key.dtype}{list(key.shape)}"
        )
    words = {"seed_tensor": key[1::-1]}  # twinops reads the low half first
    if key.shape == (4,):
        words["offset_tensor"] = key[3:1:-1]
    return words


class Shards:
    """How x, as it is seen inside shard_map, lies in the whole array. `spec` is the PartitionSpec, or a
    tuple like one, that x came in with."""

    def __init__(self, shape, spec, shared_axes=()):
        axes = [_names(entry) for entry in spec] + [()] * (len(shape) - len(spec))
        if len(axes) > len(shape):
            raise ValueError(f"spec has {len(spec)} entries; the array has {len(shape)} dimensions")
        counts = [math.prod(jax.lax.axis_size(n) for n in names) for names in axes]
        self.global_shape = tuple(s * n for s, n in zip(shape, counts))
        self.names = [(n, jax.lax.axis_size(n)) for names in axes for n in names]
        self.starts = [
            tuple(int(i) * s for i, s in zip(place, shape)) for place in np.ndindex(*counts)
        ]
        shared = {a % len(shape) for a in shared_axes}
        strides, draws = [0] * len(shape), 1
        for i in reversed(range(len(shape))):
            if i not in shared:
                strides[i] = draws
                draws *= self.global_shape[i]
        # The index in the sequence of each shard's first element.
        self.first = [sum(a * b for a, b in zip(start, strides)) for start in self.starts]

    def index(self):
        """Which of them this device has: a number that the program works out."""
        index = jnp.int32(0)
        for name, size in self.names:
            index = index * size + jax.lax.axis_index(name)
        return index

    @property
    def in_blocks(self):
        """Whether each begins at a multiple of four words: then an offset says all."""
        return all(first % 4 == 0 for first in self.first)

    def offset(self, index, offset=None):
        """The words of `offset_tensor` for shard `index`, added to those that are there."""
        table = np.array(self.first, "uint64").view("uint32").reshape(-1, 2)
        words = jnp.asarray(table)[index]
        if offset is None:
            return words
        low = words[0] + offset[0]
        return jnp.stack([low, words[1] + offset[1] + (low < offset[0]).astype(jnp.uint32)])


def _names(entry):
    if entry is None:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(entry)
