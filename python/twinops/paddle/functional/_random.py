"""Random words, uniform numbers and the sparse projection."""

import math

import paddle
from paddle.jit.marker import unified

from twinops.paddle._plugin import run
from twinops.paddle.generator import default_generator, signed


# What says where in a sequence to draw. Without a seed that is the default generator's to say.
_PLACED = ("offset", "subsequence", "element_offset", "global_shape", "start")


def _fill(op, shape, seed, offset, attributes):
    inputs = {"like": paddle.empty(shape, "uint8")}
    if seed is None:
        asked = {"offset": offset, **attributes}
        placed = [name for name in _PLACED if asked.get(name)]
        if asked.get("layout") == "triton":  # whose sequence has no offset
            placed.append("layout='triton'")
        if placed:
            raise ValueError(f"{op}: {', '.join(placed)} needs a seed; none was given")
        more, random = default_generator().random_arguments((math.prod(shape) + 3) // 4 * 4)
        return run(op, {**inputs, **more}, {**attributes, **random})[0]
    return run(op, inputs, {"seed": signed(seed), "offset": offset, **attributes})[0]


@unified
def philox_words(shape, seed=None, offset=0, **attributes):
    """The random 32-bit words that the elements of a tensor draw (Philox4x32-10 as cuRAND uses it).

    shape: of the tensor that is returned: int32, with the bits of the words.
    seed: an integer of 64 bits; None: the default generator's next words, which says itself where to
        draw, so that offset and other attributes of a place raise ValueError.
    offset: words of the sequence to skip; a multiple of 4.
    attributes: the operator's others by name, as subsequence, layout, period, global_shape, start,
        shared_axes. docs/operators/philox_words.md
    """
    return _fill("philox_words", shape, seed, offset, attributes)


@unified
def uniform(shape, seed=None, offset=0, **attributes):
    """Uniform random numbers, float32 of the given shape: in (0, 1] with the bits of curand_uniform, or
    with layout="triton" in [0, 1) with those of tl.rand. The arguments are philox_words'.
    docs/operators/uniform.md"""
    return _fill("uniform", shape, seed, offset, attributes)


@unified
def random_projection(x, k, seed, s=3.0, **attributes):
    """sqrt(s / k) * x @ R: the rows of x in k dimensions, distances kept in the mean. R, [columns, k]
    of +1, 0 and -1, is drawn from the seed as it is used; the same seed is the same matrix.

    x: floating, [..., columns].
    k: columns of the result, 1 or more.
    seed: an integer of 64 bits.
    s: one entry of R in s is not 0; 1 to 2^31.
    attributes: subsequence, offset, element_offset, as of philox_words.

    Returns [..., k] of the type of x. docs/operators/random_projection.md
    """
    return run("random_projection", {"x": x}, {"k": k, "seed": signed(seed), "s": s, **attributes})[0]
