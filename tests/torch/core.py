"""The C++ core, called directly: twinops_run of the C ABI, over the memory of CPU tensors, without the
plugin between; tensors compared by their bits; functions that draw the same at every call."""

import torch

from twinops._call import Call, view
from twinops._native import library

_TYPES = {
    torch.float16: (2, 16),
    torch.bfloat16: (4, 16),
    torch.float32: (2, 32),
    torch.float64: (2, 64),
    torch.bool: (6, 8),
    torch.uint8: (1, 8),
    torch.int32: (0, 32),
    torch.int64: (0, 64),
}
_INTEGERS = {16: torch.int16, 32: torch.int32, 64: torch.int64, 8: torch.uint8}


def _view(tensor, words):
    code, bits = _TYPES[tensor.dtype]
    if words:
        code = 1
    data = tensor.data_ptr() if tensor.numel() else None
    return view(data, (code, bits), tensor.shape, tensor.stride())


def run(op, tensors, attributes, words=()):
    """`tensors`: name -> CPU tensor or list of them; those named in `words` are int32 for uint32."""
    views = {}
    for name, value in tensors.items():
        if value is None:
            continue
        is_list = isinstance(value, (list, tuple))
        made = [_view(t, name in words) for t in (value if is_list else [value])]
        views[name] = made if is_list else made[0]
    Call(library(), op, views, attributes)()


def bits(tensor):
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype in (torch.bool, torch.uint8):
        return tensor
    return tensor.view(_INTEGERS[tensor.element_size() * 8])


def assert_same_bits(a, b):
    """Fails with the first element that differs."""
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape, b.dtype, b.shape)
    x, y = bits(a).flatten(), bits(b).flatten()
    wrong = (x != y).nonzero()
    if wrong.numel():
        i = wrong[0].item()
        mask = (1 << (8 * x.element_size())) - 1
        raise AssertionError(
            f"{wrong.numel()} of {x.numel()} differ, first element {i}: "
            f"{a.flatten()[i].item()} ({x[i].item() & mask:#x}) and "
            f"{b.flatten()[i].item()} ({y[i].item() & mask:#x})"
        )


def seeded(f):
    """f, whose random calls draw the same at every call."""

    def call(*args, **kwargs):
        torch.manual_seed(7)
        return f(*args, **kwargs)

    return call
