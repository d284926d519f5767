"""A call for every operator of the table: inputs of Paddle's, attributes. An operator that is not
named here is called with tensors of one shape for its required inputs."""

import paddle

from twinops import operators

TYPES = ("float16", "bfloat16", "float32", "float64")
FORWARD = [n for n in operators() if n.removesuffix("_grad") not in set(operators()) - {n}]
_RANDOM = {"seed": 0x1234_5678_9ABC, "offset": 8}


def _tensor(rng, shape, dtype):
    return paddle.to_tensor(rng.standard_normal(shape)).astype(dtype)


def _check_finite(rng, dtype):
    xs = [_tensor(rng, shape, dtype) for shape in ([3, 5], [0], [1], [70])]
    return {"x": xs, "scale": paddle.full([1], 3.0)}, {"reset": True}


def _update(rng, dtype):
    xs = [_tensor(rng, shape, dtype) for shape in ([3, 5], [0], [70])]
    state = {"good_steps": paddle.full([1], 4, "int32"), "bad_steps": paddle.full([1], 1, "int32")}
    found = paddle.full([1], True, "bool")
    return {"x": xs, "found_inf": found, "scale": paddle.full([1], 24.0), **state}, {}


def _dropout(rng, dtype):
    return {"x": _tensor(rng, [6, 41], dtype)}, {"p": 0.25, "mask_type": "uint32", **_RANDOM}


def _bias(rng, dtype):
    inputs = {"x": [6, 41], "bias": [41], "residual": [6, 41]}
    tensors = {name: _tensor(rng, shape, dtype) for name, shape in inputs.items()}
    return tensors, {"p": 0.25, "mask_type": "bool", **_RANDOM}


def _softmax(rng, dtype):
    x, mask = _tensor(rng, [3, 5, 41], dtype), paddle.to_tensor(rng.random([5, 41]) < 0.2)
    lengths = paddle.to_tensor(rng.integers(0, 42, [3]).astype("int32"))
    attributes = {"scale": 0.75, "causal": True, "causal_offset": 9, "masked_rows": "zeros"}
    inputs = {"x": x, "mask": mask, "lengths": lengths, "bias": _tensor(rng, [5, 41], dtype)}
    return inputs, attributes


def _softmax_dropout(rng, dtype):
    inputs, attributes = _softmax(rng, dtype)
    inputs["mask"] = _tensor(rng, [3, 1, 41], dtype)
    outputs = {"probabilities_type": "same", "dropout_mask_type": "uint32"}
    return inputs, {**attributes, **_RANDOM, **outputs, "p": 0.25}


def _projection(rng, dtype):
    return {"x": _tensor(rng, [6, 41], dtype)}, {"k": 16, **_RANDOM}


def _fill(rng, dtype):
    return {"like": paddle.empty([7, 9])}, dict(_RANDOM)


SAMPLES = {
    "check_finite_and_unscale": _check_finite,
    "update_loss_scaling": _update,
    "dropout": _dropout,
    "bias_dropout_residual": _bias,
    "softmax": _softmax,
    "softmax_dropout": _softmax_dropout,
    "random_projection": _projection,
    "philox_words": _fill,
    "uniform": _fill,
}


def sample(op, rng, dtype):
    if op in SAMPLES:
        return SAMPLES[op](rng, dtype)
    required = [a for a in operators()[op].arguments if a.is_required and not a.is_output]
    return {a.name: _tensor(rng, [6, 41], dtype) for a in required}, {}
