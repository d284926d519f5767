"""A call for every operator of the table, as NumPy arrays: inputs, attributes, outputs asked for. An
operator that is not named here is called with arrays of one shape for its required inputs."""

from typing import NamedTuple

import numpy as np
from core import dtype as numpy_type

from twinops import operators

TYPES = ("float16", "bfloat16", "float32", "float64")
_RANDOM = {"seed": 0x1234_5678_9ABC, "offset": 8}


class Sample(NamedTuple):
    inputs: dict
    attributes: dict = {}
    asked: dict = {}
    shape: tuple = None  # of an output that is like no input
    size: int = None  # its last dimension


def _array(rng, shape, dtype):
    return rng.standard_normal(shape).astype(numpy_type(dtype))


def _check_finite(rng, dtype):
    xs = [_array(rng, shape, dtype) for shape in ([3, 5], [0], [1], [70])]
    xs[3][7] = np.inf
    return Sample({"x": xs, "scale": np.full([1], 3.0, "f4")})


def _update(rng, dtype):
    xs = [_array(rng, shape, dtype) for shape in ([3, 5], [0], [70])]
    counts = {"good_steps": np.full([1], 4, "i4"), "bad_steps": np.full([1], 1, "i4")}
    scale = {"found_inf": np.full([1], True), "scale": np.full([1], 24.0, "f4")}
    return Sample({"x": xs, **scale, **counts})


def _dropout(rng, dtype):
    return Sample({"x": _array(rng, [6, 41], dtype)}, {"p": 0.25, **_RANDOM})


def _bias(rng, dtype):
    shapes = {"x": [6, 41], "bias": [41], "residual": [6, 41]}
    inputs = {name: _array(rng, shape, dtype) for name, shape in shapes.items()}
    return Sample(inputs, {"p": 0.25, **_RANDOM}, {"mask": "bool"})


def _softmax(rng, dtype):
    lengths = rng.integers(0, 42, [3]).astype("i4")
    inputs = {"x": _array(rng, [3, 5, 41], dtype), "mask": rng.random([5, 41]) < 0.2}
    attributes = {"scale": 0.75, "causal": True, "causal_offset": 9, "masked_rows": "zeros"}
    return Sample({**inputs, "lengths": lengths, "bias": _array(rng, [5, 41], dtype)}, attributes)


def _softmax_dropout(rng, dtype):
    sample = _softmax(rng, dtype)
    sample.inputs["mask"] = _array(rng, [3, 1, 41], dtype)
    return sample._replace(attributes={**sample.attributes, **_RANDOM, "p": 0.25})


def _projection(rng, dtype):
    return Sample({"x": _array(rng, [6, 41], dtype)}, dict(_RANDOM), size=16)


def _projection_grad(rng, dtype):
    return Sample({"dy": _array(rng, [6, 16], dtype)}, dict(_RANDOM), size=41)


def _fill(rng, dtype):
    return Sample({}, dict(_RANDOM), shape=(7, 9))


SAMPLES = {
    "check_finite_and_unscale": _check_finite,
    "update_loss_scaling": _update,
    "dropout": _dropout,
    "bias_dropout_residual": _bias,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "softmax_dropout": _softmax_dropout,
    "random_projection": _projection,
    "random_projection_grad": _projection_grad,
    "philox_words": _fill,
    "uniform": _fill,
}


def sample(op, rng, dtype):
    if op in SAMPLES:
        return SAMPLES[op](rng, dtype)
    required = [a for a in operators()[op].inputs if a.is_required]
    return Sample({a.name: _array(rng, [6, 41], dtype) for a in required})
