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


def _places():
    fused = paddle.incubate.nn.functional
    return [
        (paddle.nn.functional, "softmax", functional.softmax),
        (paddle.nn.functional, "log_softmax", functional.log_softmax),
        (paddle.nn.functional, "dropout", functional.dropout),
        (paddle.nn.functional, "dropout2d", functional.dropout2d),
        (paddle.nn.functional, "dropout3d", functional.dropout3d),
        (fused, "fused_dropout_add", functional.fused_dropout_add),
        (paddle.incubate, "softmax_mask_fuse", functional.fused_softmax_mask),
        (
            paddle.incubate,
            "softmax_mask_fuse_upper_triangle",
            functional.fused_softmax_mask_upper_triangle,
        ),
    ]


def _in_place_of(original, ours):
    """Ours; Paddle's for arguments that only Paddle's has, such as `out` or the alias `input`."""
    signature = inspect.signature(ours)

    @functools.wraps(ours)
    def call(*args, **kwargs):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)
        return ours(*args, **kwargs)

    return call


def patch():
    """Puts twinops' functions and GradScaler into Paddle (docs/hosts/paddle.md, "Migrate", lists the
    names). A second call changes nothing. What was imported from Paddle before stays Paddle's."""
    if _originals:
        return
    for owner, name, ours in _places():
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
