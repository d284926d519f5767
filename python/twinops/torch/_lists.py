"""A list of gradients past PyTorch's dispatcher, whose way costs a list more than its launch does
(hosts/torch/lists.cpp)."""

import ctypes
import functools

import torch
from torch.autograd.graph import increment_version

from twinops.torch import _plugin, _random

_profiles = torch.autograd._profiler_enabled


@functools.cache
def _unscale():
    """The function of the plugin; None where this PyTorch does not hand out DLPack's table."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    function = ctypes.PyDLL(_plugin.path()).twinops_torch_unscale
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_void_p] + [ctypes.py_object] * 5 + [ctypes.c_int]
    table = ctypes.c_void_p(pointer(capsule, b"dlpack_exchange_api"))
    return functools.partial(function, table, torch.Tensor, torch.nn.Parameter)


def unscale_(gradients, scale, found_inf, allow_fp16=True):
    """check_finite_and_unscale of a list of tensors, in place. False, and nothing is done, where PyTorch's
    own way has to be gone: the call is recorded or observed; or the tensors are not plain ones on the
    scale's device, or are of float16, which is not allowed."""
    function = _unscale()
    if function is None or type(gradients) is not list or _random.is_traced() or _profiles():
        return False
    refusal = function(gradients, scale, found_inf, allow_fp16)
    if refusal:
        raise RuntimeError(refusal.decode())
    if refusal is None:
        increment_version(gradients)
    return refusal is None
