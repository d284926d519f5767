"""PyTorch's functions, computed by twinops: where PyTorch has a function, its names, defaults and
refusals are PyTorch's.

"Floating" below means float16, bfloat16, float32 or float64; tensors may have any shape and strides.
Results have the same bits on every CPU and GPU; docs/numerics.md has the arithmetic, and the page of
each operator in docs/operators/ its formula and refusals. What the library refuses is a RuntimeError
with its message; nothing has been written then. What a function takes beyond PyTorch's arguments is by
keyword only.

The softmax family takes softmax of v = scale * x + mask:

mask: broadcast to the shape of x. bool or uint8: an element that is not 0 is masked out
    (scaled_dot_product_attention means the opposite). Floating: added; -infinity masks out; another
    type than x's or float32 is converted to x's.
lengths: int32 or int64, in the shape of x's first dimensions, one or more of those before dim: how
    many elements of a row count, from its first on.
scale: a finite number, rounded to float32 unless x is float64.
causal: row i sees columns 0 to i + causal_offset only; for rows along the last dimension.
masked_rows: what a row gives that is masked out throughout: "nan", as PyTorch, or "zeros".

The dropout family:

generator: a torch.Generator to draw the seed from; None: PyTorch's default CPU generator.
mask: what the backward pass reads. None: the mask is not stored but drawn again; "bits": it is stored,
    an eighth of a byte an element; "bytes": a byte an element.
global_shape, start: tuples, where the tensor is a part of a larger one: the shape of the whole, and the
    index of the tensor's first element in it. It drops what the whole would drop there.
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
    if dim != -1:
        attributes["axis"] = dim
    if dtype is not None or x.is_cuda:
        x, out_type = _cast(x, _autocast_dtype(x, dtype))
        if out_type != "same":
            attributes["out_type"] = out_type
    if x.dim() == 0:  # PyTorch takes a scalar for a row of one
        return _softmax(op, x.reshape(1), 0, dtype, mask, lengths, attributes).reshape(())
    if mask is not None:
        mask = _mask_for(x, mask)
    if not _eager.is_plain(x, mask, lengths):
        return _autograd.call(op, x, mask, lengths, **attributes)
    if _eager.wants_gradient(x, mask):
        return _eager.apply_softmax(x, mask, lengths, op, attributes)
    return _eager.RAW[op](x, mask, lengths, **attributes)


def _row_masks(scale, causal, causal_offset, masked_rows):
    """Those that are not as the operator has them: each costs a call its time."""
    attributes = {}
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
    scale=1.0,
    causal=False,
    causal_offset=0,
    masked_rows="nan",
):
    """torch.nn.functional.softmax: exp(v) / sum(exp(v)) along `dim`, of a floating input. dtype: x is
    cast to it first; None: it is not. Returns the shape of input. docs/operators/softmax.md"""
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
    """torch.nn.functional.log_softmax: v - log(sum(exp(v))) along `dim`, of a floating input; dtype as of
    softmax. Returns the shape of input. docs/operators/log_softmax.md"""
    if dim is None:
        dim = torch.nn.functional._get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    attributes = _row_masks(scale, causal, causal_offset, masked_rows)
    return _softmax("log_softmax", input, dim, dtype, mask, lengths, attributes)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """torch.nn.functional.softmin: softmax of -input, whose negation is exact."""
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
    attributes = {"p": float(p)}
    if seed:
        attributes["seed"] = seed
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
        return _eager.apply_dropout_in_place(x, seed_tensor, attributes)
    if _eager.wants_gradient(x):
        return _eager.apply_dropout(x, seed_tensor, attributes, mask_type)
    return _eager.RAW["dropout"](x, seed_tensor, **attributes)[0]


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
    """torch.nn.functional.dropout: an element of the floating input is dropped, +0, with probability p
    (0 to 1, else ValueError); the others are multiplied with 1 / (1 - p). Outside training the input
    comes back. inplace: the input is written over, and the mask is drawn again for the gradient,
    whatever `mask`. Which elements are dropped is a function of seed, offset and the element's index
    alone: docs/same-mask-everywhere.md. docs/operators/dropout.md"""
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
    """torch.nn.functional.dropout1d: drops whole channels of (N, C, L) or (C, L)."""
    return _channels("dropout1d", input, p, training, inplace, generator, (2, 3))


def dropout2d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """torch.nn.functional.dropout2d: drops whole channels of (N, C, H, W). As in PyTorch, an input of
    three dimensions is (N, C, L)."""
    _check_p(p)
    if input.dim() == 3:
        return dropout1d(input, p, training, inplace, generator=generator)
    if input.dim() == 4:
        return _channels("dropout2d", input, p, training, inplace, generator, (3, 4))
    return torch.nn.functional.dropout2d(input, p, training, inplace)  # as PyTorch refuses it


def dropout3d(input, p=0.5, training=True, inplace=False, *, generator=None):
    """torch.nn.functional.dropout3d: drops whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _channels("dropout3d", input, p, training, inplace, generator, (4, 5))


def bitmask_dropout(input, p=0.5, training=True, *, generator=None, global_shape=None, start=None):
    """Dropout that returns its mask too, as ONNX Runtime's BitmaskDropout: (y, mask). The mask is int32
    of shape [ceil(n / 32)]: element e is bit e % 32 of word e // 32, counted from the lowest bit,
    1 = kept; bits beyond the last element are 0. The other arguments are dropout's."""
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
    """dropout(input + bias) + residual in one pass; each sum is rounded once.

    input: floating.
    bias: None, or a tensor of the type of input, of shape [input.shape[-1]] or the shape of input.
    residual: None, or a tensor of the shape and type of input.
    The other arguments are dropout's. docs/operators/bias_dropout_residual.md
    """
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
        return _eager.apply_bias_dropout_residual(
            input, bias, residual, seed_tensor, attributes, mask_type
        )
    return _eager.RAW["bias_dropout_residual"](input, bias, residual, seed_tensor, **attributes)[0]


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
    """dropout(softmax(input)), with the bits of the two one after the other: what attention does with
    its scores.

    input, dim, dtype, mask, lengths, scale, causal, causal_offset, masked_rows: softmax's. For a mask
        that wants a gradient, softmax and dropout are called one after the other.
    p, training, generator, global_shape, start: dropout's; dropout_mask: its `mask`.
    docs/operators/softmax_dropout.md
    """
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
    if dim != -1:
        masks["axis"] = dim
    gradient = _eager.wants_gradient(x)
    types = {} if y_type == "same" else {"y_type": y_type}
    if gradient:
        types["probabilities_type"] = y_type
        if _mask_type(dropout_mask):
            types["dropout_mask_type"] = _mask_type(dropout_mask)
    if not _eager.is_plain(x, mask, lengths):
        types["probabilities_type"] = y_type  # whether a gradient is wanted, the trace may not know
        return _autograd.call(
            "softmax_dropout", x, mask, lengths, seed_tensor, **masks, **random, **types
        )[0]
    if gradient:
        return _eager.apply_softmax_dropout(x, mask, lengths, seed_tensor, masks, random, types)[0]
    return _eager.RAW["softmax_dropout"](
        x, mask, lengths, seed_tensor, **masks, **random, **types
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
    """The random 32-bit words that the elements of a tensor draw (Philox4x32-10 as cuRAND uses it).

    size: the shape of the tensor that is returned: int32, with the bits of the words.
    seed: an integer of 64 bits.
    offset: words of the sequence to skip; a multiple of 4.
    device: where; None: PyTorch's default.
    attributes: the operator's others by name, as subsequence, layout, period, global_shape, start,
        shared_axes. docs/operators/philox_words.md
    """
    return _fill("philox_words", size, seed, offset, device, attributes)


def uniform(size, seed, offset=0, *, device=None, **attributes):
    """Uniform random numbers, float32 of the given size: in (0, 1] with the bits of curand_uniform, or
    with layout="triton" in [0, 1) with those of tl.rand. The arguments are philox_words'.
    docs/operators/uniform.md"""
    return _fill("uniform", size, seed, offset, device, attributes)


def random_projection(input, k, seed, s=3.0, **attributes):
    """sqrt(s / k) * input @ R: the rows of input in k dimensions, distances kept in the mean. R,
    [columns, k] of +1, 0 and -1, is drawn from the seed as it is used; the same seed is the same matrix.

    input: floating, [..., columns].
    k: columns of the result, 1 or more.
    seed: an integer of 64 bits.
    s: one entry of R in s is not 0; 1 to 2^31.
    attributes: subsequence, offset, element_offset, as of philox_words.

    Returns [..., k] of the type of input. docs/operators/random_projection.md
    """
    return ops.random_projection(input, k=k, seed=signed(seed), s=s, **attributes)


# ---- loss scaling --------------------------------------------------------------------------------


@torch.no_grad()
def check_finite_and_unscale_(tensors, scale, found_inf, check="output", reset=False):
    """Multiplies every tensor of a list with 1 / scale, in place, and looks for values that are not
    finite.

    tensors: floating, any number, shapes and mix of types, on one device.
    scale: float32 or float64, one element, on that device.
    found_inf: bool, uint8 or float32, one element, there too; becomes 1 if a value is not finite.
    check: which values must be finite: "output", those that are stored, or "input", those that are
        read, as PyTorch's GradScaler tests.
    reset: True: found_inf becomes 0 if all are; False: it is left alone then.
    docs/operators/check_finite_and_unscale.md
    """
    ops.check_finite_and_unscale_(list(tensors), scale, found_inf, check=check, reset=reset)


@torch.no_grad()
def update_loss_scaling_(tensors, found_inf, scale, good_steps, bad_steps, **attributes):
    """Takes one step of dynamic loss scaling, in place.

    tensors: floating; they become 0 if found_inf is not 0.
    found_inf: bool, uint8 or float32, one element.
    scale: float32 or float64, one element.
    good_steps, bad_steps: int32, one element: steps in a row, finite and not finite.
    attributes: incr_every_n_steps (1000), decr_every_n_nan_or_inf (2), incr_ratio (2.0), decr_ratio
        (0.5), stop_update (False): docs/operators/update_loss_scaling.md
    """
    ops.update_loss_scaling_(list(tensors), found_inf, scale, good_steps, bad_steps, **attributes)

