"""PyTorch's functions, computed by twinops: names, defaults and refusals are PyTorch's.

What a function takes beyond PyTorch's arguments is by keyword only.

Of the softmax family, of v = scale * x + mask: `mask`, broadcast to x: floating, it is added, or,
bool or uint8, not 0 means masked out; `lengths` (int32 or int64, x's first dimensions): how many
elements of a row count; `causal`: row i sees columns 0 to i + `causal_offset`; `masked_rows`: what a
row that is masked out throughout gives, "nan" (as PyTorch) or "zeros".

Of the dropout family: `generator`, a torch.Generator, is drawn from instead of PyTorch's default CPU
generator; `mask` says what the backward pass reads: None, the mask is drawn again; "bits", an eighth
of a byte an element is kept; or "bytes". `global_shape` and `start`, tuples: the tensor is a part of
a larger one, and drops what the whole would drop there.
"""

import torch
from torch import Tensor

from twinops.torch import _autograd, _eager, _random, sharding

ops = torch.ops.twinops
_MASK_TYPES = {"bits": "uint32", "bytes": "bool", None: ""}
_OUT_TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
_HALF = (torch.float16, torch.bfloat16)


# ---- softmax -------------------------------------------------------------------------------------


def _check_dim(x, dim):
    if type(dim) is not int:
        raise TypeError(f"softmax(): argument 'dim' must be int, not {type(dim).__name__}")
    rank = max(x.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )


def _autocast_dtype(x, dtype):
    """Under autocast PyTorch takes softmax in float32 on a GPU."""
    if dtype is None and x.is_cuda and torch.is_autocast_enabled("cuda"):
        return torch.float32
    return dtype


def _mask_for(x, mask):
    """A mask that twinops takes with x: another floating type is converted."""
    if mask is None or mask.dtype in (x.dtype, torch.bool, torch.uint8):
        return mask
    if mask.dtype == torch.float32 and x.dtype in _HALF:
        return mask
    return mask.to(x.dtype)


def _cast(x, dtype):
    """x, and the type that the operator is asked for instead of a conversion before it."""
    if dtype is None or dtype == x.dtype:
        return x, "same"
    if dtype == torch.float32 and x.dtype in _HALF:
        return x, "float32"
    return x.to(dtype), "same"


def _softmax(op, x, dim, dtype, mask, lengths, attributes):
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}(): argument 'input' must be Tensor, not {type(x).__name__}")
    if sharding.is_sharded(x):
        return sharding.softmax(op, x, dim, dtype, mask, lengths, attributes)
    _check_dim(x, dim)
    x, out_type = _cast(x, _autocast_dtype(x, dtype))
    if x.dim() == 0:  # PyTorch takes a scalar for a row of one
        return _softmax(op, x.reshape(1), 0, dtype, mask, lengths, attributes).reshape(())
    mask = _mask_for(x, mask)
    attributes = {**attributes, "axis": dim, "out_type": out_type}
    if not _eager.is_plain(x, mask, lengths):
        return _autograd.call(op, x, mask, lengths, **attributes)
    if _eager.wants_gradient(x, mask):
        return _eager.Softmax.apply(x, mask, lengths, op, attributes)
    return _eager.call(_eager._FORWARD[op], x, mask, lengths, **attributes)


def _row_masks(scale, causal, causal_offset, masked_rows):
    return {
        "scale": scale,
        "causal": causal,
        "causal_offset": causal_offset,
        "masked_rows": masked_rows,
    }


def softmax(
    input,
    dim=None,
    _stacklevel=3,
    dtype=None,
    *,
    mask=None,
    lengths=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """torch.nn.functional.softmax."""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("softmax", input.dim(), _stacklevel)
    attributes = _row_masks(scale, causal, causal_offset, masked_rows)
    return _softmax("softmax", input, dim, dtype, mask, lengths, attributes)


def log_softmax(
    input,
    dim=None,
    _stacklevel=3,
    dtype=None,
    *,
    mask=None,
    lengths=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """torch.nn.functional.log_softmax."""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    attributes = _row_masks(scale, causal, causal_offset, masked_rows)
    return _softmax("log_softmax", input, dim, dtype, mask, lengths, attributes)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """torch.nn.functional.softmin: softmax of -x."""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("softmin", input.dim(), _stacklevel)
    return softmax(input, dim, dtype=dtype, scale=-1.0)


# ---- dropout -------------------------------------------------------------------------------------


def _check_p(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _draws(x, p, training):
    return training and p != 0.0


def _random_arguments(x, p, generator, global_shape, start):
    """(attributes, seed tensor) of every operator of the family. At p = 1 nothing is drawn."""
    seed, seed_tensor = (0, None) if p == 1.0 else _random.draw(x, generator)
    attributes = {"p": float(p), "seed": seed}
    if global_shape is not None:
        attributes["global_shape"] = ",".join(map(str, global_shape))
        attributes["start"] = ",".join(map(str, start))
    elif start is not None:
        raise ValueError("start is given without global_shape")
    return attributes, seed_tensor


def _mask_type(mask):
    if mask not in _MASK_TYPES:
        raise ValueError(f"mask has to be 'bits', 'bytes' or None, but got {mask!r}")
    return _MASK_TYPES[mask]


def _dropout(x, p, training, inplace, generator, mask, global_shape, start, shared_axes=""):
    if not isinstance(x, Tensor):
        raise TypeError(f"dropout(): argument 'input' must be Tensor, not {type(x).__name__}")
    _check_p(p)
    mask_type = _mask_type(mask)
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
        return _eager.DropoutInPlace.apply(x, seed_tensor, attributes)
    if _eager.wants_gradient(x):
        return _eager.Dropout.apply(x, seed_tensor, attributes, mask_type)
    return _eager.call(ops.dropout.default, x, seed_tensor, **attributes)[0]


def dropout(
    input,
    p=0.5,
    training=True,
    inplace=False,
    *,
    generator=None,
    mask=None,
    global_shape=None,
    start=None,
):
    """torch.nn.functional.dropout. In place nothing is kept for the backward pass, whatever `mask`."""
    return _dropout(input, p, training, inplace, generator, mask, global_shape, start)


def _channels(name, x, p, training, inplace, generator, ranks):
    """Whole channels are dropped: all axes behind the first two share a draw."""
    _check_p(p)
    if x.dim() not in ranks:
        raise RuntimeError(
            f"{name}: Expected {ranks[0]}D or {ranks[1]}D input, but received a {x.dim()}D input."
        )
    batched = x.dim() == ranks[-1]
    if not batched:
        x = x.unsqueeze_(0) if inplace else x.unsqueeze(0)
    shared = ",".join(str(i) for i in range(2, x.dim()))
    y = _dropout(x, p, training, inplace, generator, None, None, None, shared)
    if not batched:
        y = y.squeeze_(0) if inplace else y.squeeze(0)
    return y


def dropout1d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """torch.nn.functional.dropout1d: whole channels of (N, C, L) or (C, L) are dropped."""
    return _channels("dropout1d", input, p, training, inplace, generator, (2, 3))


def dropout2d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """torch.nn.functional.dropout2d: whole channels of (N, C, H, W) are dropped. As in PyTorch, an
    input of three dimensions is (N, C, L)."""
    _check_p(p)
    if input.dim() == 3:
        return dropout1d(input, p, training, inplace, generator=generator)
    if input.dim() == 4:
        return _channels("dropout2d", input, p, training, inplace, generator, (3, 4))
    return torch.nn.functional.dropout2d(input, p, training, inplace)  # as PyTorch refuses it


def dropout3d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """torch.nn.functional.dropout3d: whole channels of (N, C, D, H, W) or (C, D, H, W) are dropped."""
    return _channels("dropout3d", input, p, training, inplace, generator, (4, 5))


def bitmask_dropout(input, p=0.5, training=True, *, generator=None, global_shape=None, start=None):
    """Dropout that gives its mask too: (y, mask). The mask is int32 of ceil(n / 32) elements: element
    e is bit e % 32 of word e // 32, 1 = kept."""
    _check_p(p)
    if _draws(input, p, training):
        attributes, seed_tensor = _random_arguments(input, p, generator, global_shape, start)
    else:
        attributes, seed_tensor = {"p": 0.0}, None
    return ops.dropout(input, seed_tensor, mask_type="uint32", **attributes)


def bias_dropout_residual(
    input,
    bias=None,
    residual=None,
    p=0.5,
    training=True,
    *,
    generator=None,
    mask=None,
    global_shape=None,
    start=None,
):
    """dropout(input + bias) + residual in one pass. bias: of the last dimension's shape or of
    input's; residual: of input's shape."""
    _check_p(p)
    mask_type = _mask_type(mask)
    if sharding.is_sharded(input):
        return sharding.bias_dropout_residual(input, bias, residual, p, training, generator, mask)
    if _draws(input, p, training):
        attributes, seed_tensor = _random_arguments(input, p, generator, global_shape, start)
    else:
        attributes, seed_tensor = {"p": float(p), "training": training}, None
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
        return _eager.BiasDropoutResidual.apply(
            input, bias, residual, seed_tensor, attributes, mask_type
        )
    return _eager.call(
        ops.bias_dropout_residual.default, input, bias, residual, seed_tensor, **attributes
    )[0]


def softmax_dropout(
    input,
    p=0.5,
    dim=-1,
    training=True,
    *,
    dtype=None,
    generator=None,
    dropout_mask=None,
    mask=None,
    lengths=None,
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
    global_shape=None,
    start=None,
):
    """dropout(softmax(input)) in one pass, bit for bit: what attention does with its scores. `mask`,
    `lengths` and the rest are softmax's; `dropout_mask` is dropout's `mask`. A mask that wants a
    gradient is taken by softmax and dropout one after the other."""
    _check_p(p)
    _check_dim(input, dim)
    masks = _row_masks(scale, causal, causal_offset, masked_rows)
    apart = mask is not None and _eager.wants_gradient(mask)
    if not _draws(input, p, training) or apart or sharding.is_sharded(input) or input.dim() == 0:
        y = _softmax("softmax", input, dim, dtype, mask, lengths, masks)
        return _dropout(y, p, training, False, generator, dropout_mask, global_shape, start)
    x, y_type = _cast(input, _autocast_dtype(input, dtype))
    mask = _mask_for(x, mask)
    random, seed_tensor = _random_arguments(x, p, generator, global_shape, start)
    masks["axis"] = dim
    gradient = _eager.wants_gradient(x)
    types = {"y_type": y_type, "dropout_mask_type": _mask_type(dropout_mask)}
    types["probabilities_type"] = y_type if gradient else ""
    if not _eager.is_plain(x, mask, lengths):
        types["probabilities_type"] = y_type  # whether a gradient is wanted, the trace may not know
        return _autograd.call(
            "softmax_dropout", x, mask, lengths, seed_tensor, **masks, **random, **types
        )[0]
    if gradient:
        return _eager.SoftmaxDropout.apply(x, mask, lengths, seed_tensor, masks, random, types)[0]
    return _eager.call(
        ops.softmax_dropout.default, x, mask, lengths, seed_tensor, **masks, **random, **types
    )[0]


# ---- random numbers ------------------------------------------------------------------------------


def _fill(op, size, seed, offset, device, attributes):
    like = torch.empty(size, dtype=torch.uint8, device=device)
    return getattr(ops, op)(like, seed=signed(seed), offset=signed(offset), **attributes)


def signed(word):
    """A 64-bit word as the int64 that PyTorch's operators take."""
    word %= 1 << 64
    return word - (1 << 64) if word >= 1 << 63 else word


def philox_words(size, seed, offset=0, *, device=None, **attributes):
    """Random 32-bit words, as int32: those that `dropout` of this size draws. Attributes are the
    operator's: subsequence, layout, ..."""
    return _fill("philox_words", size, seed, offset, device, attributes)


def uniform(size, seed, offset=0, *, device=None, **attributes):
    """Random float32 in (0, 1], the numbers of curand_uniform."""
    return _fill("uniform", size, seed, offset, device, attributes)


def random_projection(input, k, seed, s=3.0, **attributes):
    """The rows of input, its last axis, in k dimensions, their distances kept: input times a sparse
    matrix that is drawn from the seed as it is used. The same seed is the same matrix."""
    return ops.random_projection(input, k=k, seed=signed(seed), s=s, **attributes)


# ---- loss scaling --------------------------------------------------------------------------------


@torch.no_grad()
def check_finite_and_unscale_(tensors, scale, found_inf, check="output", reset=False):
    """Multiplies every tensor of a list with 1 / scale, in place; found_inf (one element: bool, uint8
    or float32) becomes 1 if a value is not finite. The list may mix types."""
    ops.check_finite_and_unscale_(list(tensors), scale, found_inf, check=check, reset=reset)


@torch.no_grad()
def update_loss_scaling_(tensors, found_inf, scale, good_steps, bad_steps, **attributes):
    """A step of dynamic loss scaling, in place: the scale, the two counts (int32) and, if something
    was found, the tensors, which become 0."""
    ops.update_loss_scaling_(list(tensors), found_inf, scale, good_steps, bad_steps, **attributes)

