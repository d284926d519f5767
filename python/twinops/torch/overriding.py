"""override(): twinops' kernels in the place of ATen's own, below autograd, so that code that nobody
here wrote, and C++ code too, follows unchanged: softmax, log_softmax, dropout and their gradients, on
CPU and CUDA. Their kernels are hosts/torch/override.cpp."""

import threading
import warnings

import torch

_OVERRIDDEN = (
    "_softmax",
    "_log_softmax",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "native_dropout",
    "native_dropout_backward",
    "dropout",
)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _dropout(x, p, train):
    """torch.dropout on a CPU, which PyTorch composes of other operators there. In Python, because C++ would
    lose what a tensor's own class or a mode raises."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not train or p == 0 or x.numel() == 0:
        return x
    if x.dtype in _FLOATS and x.layout == torch.strided:
        return torch.native_dropout(x, p, train)[0]
    if p == 1:
        return x * torch.zeros((), dtype=x.dtype, layout=x.layout, device=x.device)
    return x * torch.empty_like(x, dtype=x.dtype.to_real()).bernoulli_(1 - p).div_(1 - p)


def _forget_choices():
    """Of which kernel a graph takes for an operator PyTorch keeps what it found once. Of dropout, which it
    composes of others where nobody gives a kernel, a graph would lose the gradient afterwards."""
    for name in _OVERRIDDEN:
        overload = getattr(torch.ops.aten, name).default
        for key in list(overload._dispatch_cache):
            overload._uncache_dispatch(key)


_lock = threading.Lock()
_library = None  # has _dropout
_in_force = set()  # of Override: the first puts the kernels in, the last that is removed takes them out


class _Switch(torch.autograd.Function):
    """A function of PyTorch's C++, in which what C++ warns of becomes a warning of Python's. A call of an
    operator would print it."""

    @staticmethod
    def forward(ctx, on):
        torch.ops.twinops._override(on)


def _put(on):
    global _library
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is what is wanted
        _Switch.apply(on)
        if on:
            # Where torch.compile leaves a part of a model to Python, it compiles functions that are called there.
            dropout = torch.compiler.disable(_dropout, reason="a kernel of twinops")
            _library = torch.library.Library("aten", "IMPL")
            for key in ("CPU", "AutogradCPU"):
                _library.impl("dropout", dropout, key)
        else:
            _library._destroy()
            _library = None
    _forget_choices()


class Override:
    """What override() did; `remove()`, or the end of a `with` block, undoes it."""

    def __init__(self):
        with _lock:
            if not _in_force:
                _put(True)
            _in_force.add(self)

    def remove(self):
        with _lock:
            if self in _in_force:
                _in_force.remove(self)
                if not _in_force:
                    _put(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def override():
    """Replaces ATen's kernels of softmax, log_softmax and dropout, and their gradients', on CPU and
    CUDA, for the whole process. Returns an object whose remove() puts ATen's back; a `with` block does
    too. Where it was called more than once, the last remove() does."""
    return Override()
