"""Tensors from arrays, gradients by differences, and memory that is held, for the tests of functions."""

import gc

import numpy as np
import paddle


def tensor(array, dtype="float32", grad=False):
    t = paddle.to_tensor(np.asarray(array)).astype(dtype)
    t.stop_gradient = not grad
    return t


def finite_differences(f, x, dy, step=1e-5):
    """d sum(f(x) * dy) / dx, by central differences in float64."""
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * step
            ends.append(float((f(tensor(moved, "float64")).numpy() * dy).sum()))
        gradient[i] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def held(function):
    """Bytes of Paddle's memory that the result of function() holds."""
    gc.collect()
    before = paddle.base.core.host_memory_stat_current_value("Allocated", 0)
    result = function()  # noqa: F841
    return paddle.base.core.host_memory_stat_current_value("Allocated", 0) - before
