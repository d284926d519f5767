"""A call for every operator of the table, as NumPy arrays: inputs, attributes, outputs asked for. An
operator that is not named here is called with arrays of one shape for its required inputs. The hosts that
have tensors of their own make them of these (tensors.py of tests/paddle/ and tests/torch/)."""

from typing import NamedTuple

import numpy as np

from twinops import _outputs, operators

TYPES = ("float16", "bfloat16", "float32", "float64")
_RANDOM = {"seed": 0x1234_5678_9ABC, "offset": 8}


class Sample(NamedTuple):
    inputs: dict
    attributes: dict = {}
    asked: dict = {}
    shape: tuple = None  # of an output that is like no input
    size: int = None  # its last dimension


def _array(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)  # NumPy knows bfloat16 by ml_dtypes, which core imports


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


def _dropout_grad(rng, dtype):
    return Sample({"dy": _array(rng, [6, 41], dtype)}, {"p": 0.25, **_RANDOM})


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


def _probabilities(rng, dtype):
    e = np.exp(rng.standard_normal([3, 5, 41]))
    return (e / e.sum(-1, keepdims=True)).astype(dtype)


def _softmax_grad(rng, dtype):
    inputs = {"y": _probabilities(rng, dtype), "dy": _array(rng, [3, 5, 41], dtype)}
    inputs.update(mask=_array(rng, [41, 5], dtype).T, bias=_array(rng, [3, 1, 41], dtype))
    return Sample(inputs, {"scale": 0.75}, {"dmask": "same", "dbias": "same"})


def _softmax_dropout_grad(rng, dtype):
    inputs = {"probabilities": _probabilities(rng, dtype), "dy": _array(rng, [3, 5, 41], dtype)}
    inputs.update(mask=rng.random([5, 41]) < 0.2, lengths=rng.integers(0, 42, [3]).astype("i4"))
    return Sample(inputs, {"p": 0.25, "causal": True, "causal_offset": 9, **_RANDOM})


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
    "dropout_grad": _dropout_grad,
    "bias_dropout_residual": _bias,
    "bias_dropout_residual_grad": _dropout_grad,
    "softmax": _softmax,
    "softmax_grad": _softmax_grad,
    "log_softmax": _softmax,
    "log_softmax_grad": _softmax_grad,
    "softmax_dropout": _softmax_dropout,
    "softmax_dropout_grad": _softmax_dropout_grad,
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


def sizes(op, s):
    """The parameter of the operator that says the last dimension of an output, where it has one."""
    return {o.size: s.size for o in _outputs.outputs(op) if o.size}


def tensors(op, rng, convert):
    """The sample for a host whose operators take tensors and attributes alone: inputs, attributes. An
    output's type is an attribute, its size too; its shape is that of the input `like`. convert makes a
    tensor of an array, which is float64 where the caller says the type."""
    s, outputs = sample(op, rng, "float64"), _outputs.outputs(op)
    like = {"like": np.zeros(s.shape, "f4")} if s.shape else {}
    inputs = {
        name: list(map(convert, v)) if isinstance(v, list) else convert(v)
        for name, v in {**s.inputs, **like}.items()
    }
    types = {f"{o.name}_type": s.asked.get(o.name, o.default) for o in outputs if not o.is_required}
    return inputs, {**s.attributes, **{k: v for k, v in types.items() if v}, **sizes(op, s)}
