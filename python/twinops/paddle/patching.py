"""patch() and unpatch(): twinops in the place of Paddle's functions, for models that are written
already. A layer of Paddle's calls paddle.nn.functional.dropout by that name, so nn.Dropout,
nn.MultiHeadAttention and the rest change with it."""

import contextlib
import functools
import inspect

import paddle

from twinops.paddle import functional
from twinops.paddle.amp import GradScaler

_originals = []  # (owner, name, what was there)



def _softmax_of_tensors(input, dim=None, dtype=None, *, out=None):
    """paddle.softmax and Tensor.softmax: without `dim` Paddle takes 0 or 1, by the dimensions."""
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
    y = functional.softmax(input, dim, dtype)
    return y if out is None else paddle.assign(y, out)


def _places():
    """(name of the owner, owner, name, ours)"""
    nn, fused = paddle.nn.functional, paddle.incubate.nn.functional
    ours = ("softmax", "log_softmax", "softmax_")
    ours += ("dropout", "dropout1d", "dropout2d", "dropout3d")
    places = [("paddle.nn.functional", nn, name, getattr(functional, name)) for name in ours]
    places += [
        ("paddle", paddle, "softmax", _softmax_of_tensors),
        ("paddle.special", paddle.special, "softmax", _softmax_of_tensors),
        ("paddle.Tensor", paddle.Tensor, "softmax", _softmax_of_tensors),
        ("paddle.incubate.nn.functional", fused, "fused_dropout_add", functional.fused_dropout_add),
        ("paddle.incubate", paddle.incubate, "softmax_mask_fuse", functional.fused_softmax_mask),
        (
            "paddle.incubate",
            paddle.incubate,
            "softmax_mask_fuse_upper_triangle",
            functional.fused_softmax_mask_upper_triangle,
        ),
    ]
    return [place for place in places if hasattr(place[1], place[2])]  # of this version of Paddle


# What a reader might expect among them, and why it is Paddle's.
_LEFT = {
    "paddle.nn.functional.alpha_dropout": "it keeps mean and variance: another rule than dropout's",
    "paddle.nn.functional.feature_alpha_dropout": "as alpha_dropout",
    "paddle.nn.functional.gumbel_softmax": "it draws from another distribution",
    "paddle.nn.functional.scaled_dot_product_attention": "attention is not an operator of twinops",
    "paddle.nn.functional.flash_attention": "attention is not an operator of twinops",
    "paddle.sparse.nn.functional.softmax": "twinops has no sparse tensors",
}


def patched_names():
    """What patch() does with the functions of Paddle's that a model may call: name -> "twinops", or
    why it is left to Paddle."""
    taken = [f"{path}.{name}" for path, _, name, _ in _places()] + ["paddle.amp.GradScaler"]
    return {**dict.fromkeys(taken, "twinops"), **{n: f"Paddle: {why}" for n, why in _LEFT.items()}}


_ALIASES = {"input": "x", "dim": "axis"}


def _in_place_of(original, ours):
    """Ours, by Paddle's aliases too; Paddle's for arguments that only Paddle's has."""
    parameters = inspect.signature(ours).parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    names = {p.name for p in parameters}

    @functools.wraps(ours)
    def call(*args, **kwargs):
        given = kwargs
        if not names.issuperset(given):
            given = {k if k in names else _ALIASES.get(k, k): v for k, v in kwargs.items()}
            if given.get("out", 0) is None:
                del given["out"]
        doubled = len(given) < len(kwargs) - ("out" in kwargs) or any(
            n in given for n in positional[: len(args)]
        )
        if doubled or len(args) > len(positional) or not names.issuperset(given):
            return original(*args, **kwargs)
        try:
            return ours(*args, **given)
        except functional.LeftToPaddle:
            return original(*args, **kwargs)

    return call


def patch():
    """Puts twinops' functions and GradScaler into Paddle (docs/hosts/paddle.md, "Migrate", lists the
    names). A second call changes nothing. What was imported from Paddle before stays Paddle's."""
    if _originals:
        return
    for _, owner, name, ours in _places():
        original = getattr(owner, name)
        _originals.append((owner, name, original))
        setattr(owner, name, _in_place_of(original, ours))
    _originals.append((paddle.amp, "GradScaler", paddle.amp.GradScaler))
    paddle.amp.GradScaler = GradScaler


def unpatch():
    """Takes them out again: every name is what it was before patch()."""
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)


@contextlib.contextmanager
def patched():
    """patch() for the length of a `with` block."""
    before = bool(_originals)
    patch()
    try:
        yield
    finally:
        if not before:
            unpatch()
