"""A call for every operator of the table: tensors by name, attributes. An operator that is not named
here is called with tensors of one shape for its required inputs."""

import torch

from twinops import operators

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_RANDOM = {"seed": 0x1234_5678_9ABC, "offset": 8}


def _tensor(shape, dtype):
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def _dropout(dtype):
    return {"x": _tensor([6, 41], dtype)}, {"p": 0.25, "mask_type": "uint32", **_RANDOM}


def _dropout_grad(dtype):
    return {"dy": _tensor([6, 41], dtype)}, {"p": 0.25, **_RANDOM}


def _bias(dtype):
    shapes = {"x": [6, 41], "bias": [41], "residual": [6, 41]}
    tensors = {name: _tensor(shape, dtype) for name, shape in shapes.items()}
    return tensors, {"p": 0.25, "mask_type": "bool", **_RANDOM}


def _bias_grad(dtype):
    return {"dy": _tensor([6, 41], dtype)}, {"p": 0.25, "dbias_type": "same", **_RANDOM}


def _softmax(dtype):
    tensors = {
        "x": _tensor([3, 5, 41], dtype),
        "mask": torch.rand(5, 41) < 0.2,
        "lengths": torch.randint(0, 42, (3,), dtype=torch.int32),
        "bias": _tensor([5, 41], dtype),
    }
    return tensors, {"scale": 0.75, "causal": True, "causal_offset": 9, "masked_rows": "zeros"}


def _softmax_dropout(dtype):
    tensors, attributes = _softmax(dtype)
    tensors["mask"] = _tensor([3, 1, 41], dtype)
    outputs = {"probabilities_type": "same", "dropout_mask_type": "uint32"}
    return tensors, {**attributes, **_RANDOM, **outputs, "p": 0.25}


def _masks():
    return {"mask": torch.rand(5, 41) < 0.2, "lengths": torch.randint(0, 42, (3,), dtype=torch.int32)}


def _probabilities(dtype):
    p = torch.softmax(torch.randn([3, 5, 41], dtype=torch.float64), -1)
    tensors = {"probabilities": p.to(dtype), "dy": _tensor([3, 5, 41], dtype), **_masks()}
    return tensors, {"p": 0.25, "causal": True, "causal_offset": 9, **_RANDOM}


def _y(dtype):
    y = torch.softmax(torch.randn([3, 5, 41], dtype=torch.float64), -1).to(dtype)
    tensors = {"y": y, "dy": _tensor([3, 5, 41], dtype), "mask": _tensor([41, 5], dtype).t()}
    tensors["bias"] = _tensor([3, 1, 41], dtype)
    return tensors, {"scale": 0.75, "dmask_type": "same", "dbias_type": "same"}


def _projection(dtype):
    return {"x": _tensor([6, 41], dtype)}, {"k": 16, **_RANDOM}


def _projection_grad(dtype):
    return {"dy": _tensor([6, 16], dtype)}, {"columns": 41, **_RANDOM}


def _fill(dtype):
    return {"like": torch.empty([7, 9])}, dict(_RANDOM)


def _check_finite(dtype):
    xs = [_tensor(shape, dtype) for shape in ([3, 5], [0], [1], [70])]
    xs[1], xs[2] = xs[2], xs[1]
    found = torch.zeros((), dtype=torch.float32)
    return {"x": xs, "scale": torch.full([1], 3.0), "found_inf": found}, {}


def _update(dtype):
    xs = [_tensor(shape, dtype) for shape in ([3, 5], [0], [70])]
    steps = {
        "good_steps": torch.full([1], 4, dtype=torch.int32),
        "bad_steps": torch.full([1], 1, dtype=torch.int32),
    }
    return {"x": xs, "found_inf": torch.ones(1), "scale": torch.full([1], 24.0), **steps}, {}


SAMPLES = {
    "bias_dropout_residual": _bias,
    "bias_dropout_residual_grad": _bias_grad,
    "check_finite_and_unscale": _check_finite,
    "dropout": _dropout,
    "dropout_grad": _dropout_grad,
    "log_softmax_grad": _y,
    "philox_words": _fill,
    "random_projection": _projection,
    "random_projection_grad": _projection_grad,
    "softmax": _softmax,
    "softmax_dropout": _softmax_dropout,
    "softmax_dropout_grad": _probabilities,
    "softmax_grad": _y,
    "uniform": _fill,
    "update_loss_scaling": _update,
}


def sample(op, dtype):
    if op in SAMPLES:
        return SAMPLES[op](dtype)
    required = [a for a in operators()[op].arguments if a.is_required and not a.is_output]
    return {a.name: _tensor([6, 41], dtype) for a in required}, {}


def to(device, tensors):
    def moved(t):
        return [moved(x) for x in t] if isinstance(t, list) else t.to(device)

    return {name: moved(t) for name, t in tensors.items()}
