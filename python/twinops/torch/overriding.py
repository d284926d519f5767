"""override(): twinops' kernels in the place of ATen's own, below autograd, so that code that nobody
here wrote, and C++ code too, follows unchanged: softmax, log_softmax, dropout and their gradients, on
CPU and CUDA."""

import warnings

import torch

from twinops.torch import _random, _softmax
from twinops.torch._eager import RAW

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _forward(op, x, dim, half_to_float):
    _softmax.check_dim(op, x, dim)
    if x.dim() == 0:
        return _forward(op, x.reshape(1), 0, half_to_float).reshape(())
    if half_to_float:
        return RAW[op](x, attributes=f"axis={dim};out_type=float32").contiguous()
    return RAW[op](x, attributes=f"axis={dim}").contiguous()  # as PyTorch's results are


def _softmax_kernel(x, dim, half_to_float):
    return _forward("softmax", x, dim, half_to_float)


def _log_softmax(x, dim, half_to_float):
    return _forward("log_softmax", x, dim, half_to_float)


def _backward(op, grad, y, dim, input_dtype):
    if y.dim() == 0:
        return _backward(op, grad.reshape(1), y.reshape(1), 0, input_dtype).reshape(())
    if input_dtype != y.dtype:
        dx_type = str(input_dtype).removeprefix("torch.")
        return RAW[op](y, grad, attributes=f"axis={dim};dx_type={dx_type}")[0].contiguous()
    return RAW[op](y, grad, attributes=f"axis={dim}")[0].contiguous()


def _softmax_backward(grad, y, dim, input_dtype):
    return _backward("softmax_grad", grad, y, dim, input_dtype)


def _log_softmax_backward(grad, y, dim, input_dtype):
    return _backward("log_softmax_grad", grad, y, dim, input_dtype)


def _native_dropout(x, p, train):
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool, memory_format=torch.contiguous_format)
    seed, seed_tensor = (0, None) if p == 1 else _random.draw(x)
    return RAW["dropout"](x, seed_tensor, p=float(p), attributes=f"seed={seed};mask_type=bool")


def _native_dropout_backward(grad, mask, scale):
    # PyTorch gives the scale, 1 / (1 - p), and 0 at p = 1.
    p = 0.0 if scale == 0 else 1.0 - 1.0 / scale
    if scale == 0:
        return torch.zeros_like(grad)
    return RAW["dropout_grad"](grad, mask.contiguous(), p=p)


def _dropout(x, p, train):
    """torch.dropout on a CPU, which PyTorch composes of other operators there."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not train or p == 0 or x.numel() == 0:
        return x
    if x.dtype not in _FLOATS:
        return x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)
    return torch.native_dropout(x, p, train)[0]


_KERNELS = {
    "_softmax": _softmax_kernel,
    "_log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "native_dropout": _native_dropout,
    "native_dropout_backward": _native_dropout_backward,
}


def _forget_choices():
    """Of which kernel a graph takes for an operator PyTorch keeps what it found once. Of dropout, which it
    composes of others where nobody gives a kernel, a graph would lose the gradient afterwards."""
    for name in [*_KERNELS, "dropout"]:
        overload = getattr(torch.ops.aten, name).default
        for key in list(overload._dispatch_cache):
            overload._uncache_dispatch(key)


_in_force = set()  # of Override: the first puts the kernels in, the last that is removed takes them out
_library = None


def _uncompiled(kernel):
    """Where torch.compile leaves a part of a model to Python, it would compile a kernel that is called there."""
    return torch.compiler.disable(kernel, reason="a kernel of twinops")


def _put_in():
    global _library
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is what is wanted
        for name, kernel in _KERNELS.items():
            for key in ("CPU", "CUDA"):
                _library.impl(name, _uncompiled(kernel), key)
        for key in ("CPU", "AutogradCPU"):
            _library.impl("dropout", _uncompiled(_dropout), key)
    _forget_choices()


def _take_out():
    global _library
    _library._destroy()
    _library = None
    _forget_choices()


class Override:
    """What override() did; `remove()`, or the end of a `with` block, undoes it."""

    def __init__(self):
        if not _in_force:
            _put_in()
        _in_force.add(self)

    def remove(self):
        if self in _in_force:
            _in_force.remove(self)
            if not _in_force:
                _take_out()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def override():
    """Replaces ATen's kernels of softmax, log_softmax and dropout, and their gradients', on CPU and
    CUDA, for the whole process. Returns an object whose remove() puts ATen's back; a `with` block does
    too. Where it was called more than once, the last remove() does."""
    return Override()
