"""The dropout family of functional.py."""

import warnings

import torch

from twinops._outputs import bias_shape
from twinops.torch import _autograd, _eager, _random, _softmax, sharding
from twinops.torch._plugin import packed
from twinops.torch._softmax import check_tensor

_AUTOCAST = {torch.float16, torch.bfloat16, torch.float32}  # what autocast converts
_is_exporting = torch.compiler.is_exporting
_MASK_TYPES = {"bits": "uint32", "bytes": "bool", None: ""}


def _check(p, training):
    if not 0.0 <= p <= 1.0:  # of NaN PyTorch's C++ complains, of others its Python
        raise (RuntimeError if p != p else ValueError)(
            f"dropout probability has to be between 0 and 1, but got {p}"
        )
    if type(training) is not bool:  # PyTorch refuses numbers and tensors too
        kind = type(training)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(f"argument 'training' must be bool, not {name}")


def _draws(x, p, training):
    return training and p != 0.0


def _random_arguments(x, p, generator, global_shape, start):
    """(attributes, seed tensor) of every operator of the family. At p = 1 nothing is drawn."""
    seed, seed_tensor = (0, None) if p == 1.0 else _random.draw(x, generator)
    attributes = {"p": float(p)}
    if seed:
        attributes["seed"] = seed
    if global_shape is not None:
        if start is None:
            raise ValueError("global_shape is given without start")
        attributes["global_shape"] = ",".join(map(str, global_shape))
        attributes["start"] = ",".join(map(str, start))
    elif start is not None:
        raise ValueError("start is given without global_shape")
    return attributes, seed_tensor


def _mask_type(mask, x):
    """The type of the mask that is kept for the gradient; "" for none."""
    # A CPU reads a mask sooner than it draws one again. In an exported program the number of the mask's words
    # would limit the sizes that it takes.
    if mask == "auto":
        return "uint32" if x.is_cpu and not _is_exporting() else ""
    if mask not in _MASK_TYPES:
        raise ValueError(f"mask has to be 'auto', 'bits', 'bytes' or None, but got {mask!r}")
    return _MASK_TYPES[mask]


def run(x, p, training, inplace, generator, mask, global_shape, start, shared_axes=""):
    check_tensor("dropout", x)
    _check(p, training)
    mask_type = _mask_type(mask, x)
    if not _draws(x, p, training):
        return x
    if sharding.is_sharded(x):
        return sharding.dropout(x, p, inplace, generator, mask, shared_axes)
    attributes, seed_tensor = _random_arguments(x, p, generator, global_shape, start)
    if shared_axes:
        attributes["shared_axes"] = shared_axes
    if not _eager.is_plain(x):
        y = _autograd.call("dropout", x, seed_tensor, mask_type=mask_type, **attributes)[0]
        return x.copy_(y) if inplace else y
    if inplace:
        return _eager.dropout_in_place(x, seed_tensor, attributes)
    if _eager.wants_gradient(x):
        return _eager.apply_dropout(x, seed_tensor, attributes, mask_type)
    return _eager.RAW["dropout"](x, seed_tensor, **packed(attributes))[0]


def _run_simple(x, p, training):
    """run of a call whose other arguments are the defaults; None: it is not for this short way."""
    if training is not True or type(p) is not float or not 0.0 < p < 1.0 or not _eager.is_simple(x):
        return None
    if not x.is_cpu and (not x.is_cuda or torch.cuda.is_current_stream_capturing()):
        return None
    seed = _random.draw_number()
    if x.requires_grad and torch.is_grad_enabled():
        return _eager.apply_simple_dropout(x, p, seed)
    return _eager.RAW["dropout"](x, p=p, attributes=f"seed={seed}")[0]


def dropout(
    input,
    p=0.5,
    training=True,
    inplace=False,
    *,
    generator=None,
    mask="auto",
    global_shape=None,
    start=None,
):
    """torch.nn.functional.dropout: an element of the floating input is dropped, +0, with probability p
    (0 to 1, else ValueError); the others are multiplied with 1 / (1 - p). Outside training the input
    comes back. inplace: the input is written over, and the mask is drawn again for the gradient,
    whatever `mask`. Which elements are dropped is a function of seed, offset and the element's index
    alone: docs/same-mask-everywhere.md. docs/operators/dropout.md"""
    alone = generator is None and mask == "auto" and global_shape is None and start is None
    if alone and not inplace:
        y = _run_simple(input, p, training)
        if y is not None:
            return y
    return run(input, p, training, inplace, generator, mask, global_shape, start)


def _channels(x, p, training, inplace, generator, batched):
    """Drops whole channels: all axes behind that of the channels share a draw. batched: the first axis is
    the batch, and the channels are the second; else they are the first."""
    if _draws(x, p, training) and p != 1.0 and x.dim() + (not batched) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shared = ",".join(str(i) for i in range(1 + batched, x.dim()))
    return run(x, p, training, inplace, generator, None, None, None, shared)


def _warn_of_dimensions(spatial, x, stacklevel):
    """In PyTorch's words, so that who ignores PyTorch's warning ignores this one."""
    name, rank = f"dropout{spatial}d", x.dim()
    if rank not in (spatial + 1, spatial + 2):
        warnings.warn(
            f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note "
            f"that {name} exists to provide channel-wise dropout on inputs with {spatial} spatial dimensions, a "
            f"channel dimension, and an optional batch dimension (i.e. {spatial + 1}D or {spatial + 2}D inputs).",
            stacklevel=stacklevel + 1,
        )


def dropout1d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """torch.nn.functional.dropout1d: drops whole channels of (N, C, L) or (C, L)."""
    check_tensor("dropout1d", input)
    _check(p, training)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. "
            "Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial "
            "dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, generator, input.dim() == 3)


def dropout2d(input, p=0.5, training=True, inplace=False, *, generator=None, _stacklevel=2):
    """torch.nn.functional.dropout2d: drops whole channels of (N, C, H, W). As in PyTorch, an input of
    three dimensions is (N, C, L), and one of others is taken with a warning."""
    check_tensor("dropout2d", input)
    _check(p, training)
    _warn_of_dimensions(2, input, _stacklevel)
    return _channels(input, p, training, inplace, generator, True)


def dropout3d(input, p=0.5, training=True, inplace=False, *, generator=None, _stacklevel=2):
    """torch.nn.functional.dropout3d: drops whole channels of (N, C, D, H, W) or (C, D, H, W). As in
    PyTorch, an input of other dimensions is taken with a warning, as one without a batch."""
    check_tensor("dropout3d", input)
    _check(p, training)
    _warn_of_dimensions(3, input, _stacklevel)
    return _channels(input, p, training, inplace, generator, input.dim() == 5)


def bitmask_dropout(input, p=0.5, training=True, *, generator=None, global_shape=None, start=None):
    """Dropout that returns its mask too, as ONNX Runtime's BitmaskDropout: (y, mask). The mask is int32
    of shape [ceil(n / 32)]: element e is bit e % 32 of word e // 32, counted from the lowest bit,
    1 = kept; bits beyond the last element are 0. The other arguments are dropout's."""
    check_tensor("bitmask_dropout", input)
    if sharding.is_sharded(input):
        raise NotImplementedError(
            "bitmask_dropout of a DTensor: bits of parts are no part of the whole tensor's bits: call it on "
            "to_local() with global_shape and start, or take dropout"
        )
    _check(p, training)
    if _draws(input, p, training):
        attributes, seed_tensor = _random_arguments(input, p, generator, global_shape, start)
    else:
        attributes, seed_tensor = {"p": 0.0}, None
    return _autograd.call("dropout", input, seed_tensor, mask_type="uint32", **attributes)


def _is_row_or_like(bias, x):
    if bias.dim() != x.dim():  # asked first: sizes that a trace compares are sizes that it assumes
        return bias.dim() == 1 and bias.shape[0] == x.shape[-1]
    return bias.shape == x.shape


def _autocast(x, bias, residual):
    """Under autocast: all in the wider type of x and the residual. A bias is as a linear layer's, which
    autocast converts to the layer's type; a residual of float32 keeps its bits."""
    types = {t.dtype for t in (x, bias, residual) if t is not None}
    kind = x.device.type
    if not types <= _AUTOCAST or kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return x, bias, residual
    dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
    return [None if t is None else t.to(dtype) for t in (x, bias, residual)]


def bias_dropout_residual(
    input,
    bias=None,
    residual=None,
    p=0.5,
    training=True,
    *,
    generator=None,
    mask="auto",
    global_shape=None,
    start=None,
):
    """dropout(input + bias) + residual in one pass; each sum is rounded once.

    input: floating.
    bias: None, or a tensor of the type of input and of a shape that broadcasts to input's.
    residual: None, or a tensor of the shape and type of input.
    Under torch.autocast types may differ: all become the wider of input's and residual's, which is the
        result's, as a linear layer's bias becomes the layer's.
    The other arguments are dropout's. docs/operators/bias_dropout_residual.md
    """
    check_tensor("bias_dropout_residual", input)
    _check(p, training)
    mask_type = _mask_type(mask, input)
    dtype = input.dtype
    if (bias is not None and bias.dtype != dtype) or (residual is not None and residual.dtype != dtype):
        input, bias, residual = _autocast(input, bias, residual)
    if bias is not None and not _is_row_or_like(bias, input):
        shape = bias_shape(bias.shape, input.shape)
        bias = bias.reshape(shape) if len(shape) == 1 else bias.expand(shape)
    if sharding.is_sharded(input):
        return sharding.bias_dropout_residual(input, bias, residual, p, training, generator, mask)
    if _draws(input, p, training):
        attributes, seed_tensor = _random_arguments(input, p, generator, global_shape, start)
    else:
        attributes, seed_tensor = {"p": float(p), "training": training}, None
        mask_type = ""  # nothing is dropped: a mask would be ones alone
    if not _eager.is_plain(input, bias, residual):
        return _autograd.call(
            "bias_dropout_residual",
            input,
            bias,
            residual,
            seed_tensor,
            mask_type=mask_type,
            **attributes,
        )[0]
    if _eager.wants_gradient(input, bias, residual):
        return _eager.apply_bias_dropout_residual(
            input, bias, residual, seed_tensor, attributes, mask_type
        )
    given = packed(attributes)
    return _eager.RAW["bias_dropout_residual"](input, bias, residual, seed_tensor, **given)[0]


def softmax_dropout(
    input,
    p=0.5,
    dim=-1,
    training=True,
    *,
    dtype=None,
    generator=None,
    dropout_mask="auto",
    mask=None,
    lengths=None,
    bias=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
    global_shape=None,
    start=None,
):
    """dropout(softmax(input)), with the bits of the two one after the other: what attention does with
    its scores.

    input, dim, dtype, mask, lengths, bias, scale, causal, causal_offset, masked_rows: softmax's. For
        a mask or a bias that wants a gradient, softmax and dropout are called one after the other.
    p, training, generator, global_shape, start: dropout's; dropout_mask: its `mask`.
    docs/operators/softmax_dropout.md
    """
    check_tensor("softmax_dropout", input)
    _check(p, training)
    dim = _softmax.check_dim("softmax_dropout", input, dim)
    masks = _softmax.row_masks(scale, causal, causal_offset, masked_rows)
    apart = _eager.wants_gradient(mask, bias)
    if not _draws(input, p, training) or apart or sharding.is_sharded(input) or input.dim() == 0:
        y = _softmax.run("softmax", input, dim, dtype, mask, lengths, bias, masks)
        return run(y, p, training, False, generator, dropout_mask, global_shape, start)
    x, y_type = _softmax.cast(input, _softmax.autocast_dtype(input, dtype))
    mask, bias = _softmax.mask_for(x, mask), _softmax.mask_for(x, bias)
    random, seed_tensor = _random_arguments(x, p, generator, global_shape, start)
    if dim != -1:
        masks["axis"] = dim
    gradient = _eager.wants_gradient(x)
    types, kept = {} if y_type == "same" else {"y_type": y_type}, _mask_type(dropout_mask, x)
    if gradient:
        types["probabilities_type"] = y_type
        if kept:
            types["dropout_mask_type"] = kept
    if not _eager.is_plain(x, mask, lengths, bias):
        types["probabilities_type"] = y_type  # whether a gradient is wanted, the trace may not know
        return _autograd.call(
            "softmax_dropout", x, mask, lengths, seed_tensor, None, None, bias, **masks, **random, **types
        )[0]
    if gradient:
        return _eager.apply_softmax_dropout(x, mask, lengths, seed_tensor, bias, masks, random, types)[0]
    given = packed({**masks, **random, **types})
    return _eager.RAW["softmax_dropout"](x, mask, lengths, seed_tensor, None, None, bias, **given)[0]
