"""The softmax family of functional.py."""

import operator

import torch
from torch import Tensor

from twinops.torch import _autograd, _eager, sharding
from twinops.torch._eager import RAW, apply_simple_softmax, is_simple
from twinops.torch._plugin import packed

_HALF = (torch.float16, torch.bfloat16)
_is_autocast = torch._C._is_any_autocast_enabled


def check_tensor(function, x):
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}(): argument 'input' must be Tensor, not {type(x).__name__}")


def check_dim(function, x, dim):
    """dim as an int."""
    try:
        if isinstance(dim, bool):
            raise TypeError
        dim = operator.index(dim)
    except TypeError:
        raise TypeError(f"{function}(): argument 'dim' must be int, not {type(dim).__name__}") from None
    rank = max(x.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim


def autocast_dtype(x, dtype):
    """Under autocast PyTorch takes softmax in float32 on a GPU; but float64, which autocast leaves alone."""
    if dtype is None and x.is_cuda and x.dtype != torch.float64 and torch.is_autocast_enabled("cuda"):
        return torch.float32
    return dtype


def mask_for(x, mask):
    """A mask that twinops takes with x: another floating type is converted."""
    if mask is None or mask.dtype in (x.dtype, torch.bool, torch.uint8):
        return mask
    if not mask.is_floating_point():  # 0 and 1 of a whole number would be added
        raise TypeError(
            "mask: expected bool or uint8, which mask out where they are not 0, or a floating type, which "
            f"is added; got {mask.dtype}: what a mask of 1 keeps is masked out by `mask == 0`"
        )
    if mask.dtype == torch.float32 and x.dtype in _HALF:
        return mask
    return mask.to(x.dtype)


def cast(x, dtype):
    """x, and the type that the operator is asked for instead of a conversion before it."""
    if dtype is None or dtype == x.dtype:
        return x, "same"
    if dtype == torch.float32 and x.dtype in _HALF:
        return x, "float32"
    return x.to(dtype), "same"


def run(op, x, dim, dtype, mask, lengths, bias, attributes):
    check_tensor(op, x)
    if sharding.is_sharded(x):
        return sharding.softmax(op, x, dim, dtype, mask, lengths, bias, attributes)
    dim = check_dim(op, x, dim)
    if dim != -1:
        attributes["axis"] = dim
    if dtype is not None or x.is_cuda:
        x, out_type = cast(x, autocast_dtype(x, dtype))
        if out_type != "same":
            attributes["out_type"] = out_type
    if x.dim() == 0:  # PyTorch takes a scalar for a row of one
        return run(op, x.reshape(1), 0, dtype, mask, lengths, bias, attributes).reshape(())
    if mask is not None:
        mask = mask_for(x, mask)
    if bias is not None:
        bias = mask_for(x, bias)
    if not _eager.is_plain(x, mask, lengths, bias):
        return _autograd.call(op, x, mask, lengths, bias, **attributes)
    if _eager.wants_gradient(x, mask, bias):
        return _eager.apply_softmax(x, mask, lengths, bias, op, attributes)
    return RAW[op](x, mask, lengths, bias, **packed(attributes))


def run_simple(op, x, dim):
    """run of a call whose other arguments are the defaults; None: it is not for this short way, which
    leaves out what run asks of the others."""
    if type(dim) is not int or not is_simple(x) or _is_autocast():
        return None
    rank = x.dim()
    if not -rank <= dim < rank:
        return None
    if x.requires_grad and torch.is_grad_enabled():
        return apply_simple_softmax(x, op, dim)
    return RAW[op](x) if dim == -1 else RAW[op](x, attributes=f"axis={dim}")


def row_masks(scale, causal, causal_offset, masked_rows):
    """Those that are not as the operator has them: each costs a call its time."""
    attributes = {}
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise TypeError("scale: expected a number: a tensor's gradient would be lost")
    if scale != 1.0:
        attributes["scale"] = float(scale)
    if causal:
        attributes["causal"] = True
    if causal_offset:
        attributes["causal_offset"] = causal_offset
    if masked_rows != "nan":
        attributes["masked_rows"] = masked_rows
    return attributes


def softmax(
    input,
    dim=None,
    _stacklevel=3,
    dtype=None,
    *,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """torch.nn.functional.softmax: exp(v) / sum(exp(v)) along `dim`, of a floating input. dtype: x is
    cast to it first; None: it is not. Returns the shape of input. docs/operators/softmax.md"""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("softmax", input.dim(), _stacklevel)
    if dtype is None and mask is None and lengths is None and bias is None:
        if type(scale) is float and scale == 1.0 and not causal and not causal_offset and masked_rows == "nan":
            y = run_simple("softmax", input, dim)
            if y is not None:
                return y
    attributes = row_masks(scale, causal, causal_offset, masked_rows)
    return run("softmax", input, dim, dtype, mask, lengths, bias, attributes)


def log_softmax(
    input,
    dim=None,
    _stacklevel=3,
    dtype=None,
    *,
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """torch.nn.functional.log_softmax: v - log(sum(exp(v))) along `dim`, of a floating input; dtype as of
    softmax. Returns the shape of input. docs/operators/log_softmax.md"""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    if dtype is None and mask is None and lengths is None and bias is None:
        if type(scale) is float and scale == 1.0 and not causal and not causal_offset and masked_rows == "nan":
            y = run_simple("log_softmax", input, dim)
            if y is not None:
                return y
    attributes = row_masks(scale, causal, causal_offset, masked_rows)
    return run("log_softmax", input, dim, dtype, mask, lengths, bias, attributes)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """torch.nn.functional.softmin: softmax of -input."""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("softmin", input.dim(), _stacklevel)
    if not input.is_floating_point():  # -1 of uint8 is 255, and of bool a refusal
        return softmax(-input, dim, dtype=dtype)
    return softmax(input, dim, dtype=dtype, scale=-1.0)
