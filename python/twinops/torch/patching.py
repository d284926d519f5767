"""patch() and unpatch(): twinops in the place of PyTorch's functions, for models that are written
already. A module of PyTorch's calls torch.nn.functional.dropout by that name, so nn.Dropout,
nn.MultiheadAttention and the rest change with it."""

import contextlib
import functools
import inspect
import sys
import threading
import types
from typing import NamedTuple, Optional

import torch
from torch._C._functorch import TransformType, get_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function

from twinops.torch import functional, sharding
from twinops.torch.amp import GradScaler

_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_is_compiling = torch.compiler.is_compiling
_jit_trace = torch._C._get_tracing_state
_is_transformed = torch._C._are_functorch_transforms_active
_function_modes = torch._C._len_torch_function_stack
_lock = threading.Lock()
_in_force = set()  # of who asked for twinops: patch(), and each block of patched()
_originals = []  # (owner, name, what was there)
# It is part of the key of every graph that PyTorch keeps on disk: a graph with one of _CALLERS does not show what
# that calls.
_CACHE_TAG = "twinops.torch.patch()"

LEFT_ALONE = (
    "torch.nn.functional.scaled_dot_product_attention: its kernels take softmax and dropout inside",
    "nn.MultiheadAttention and nn.TransformerEncoderLayer in eval mode without gradients: a fused "
    "kernel of PyTorch's (torch.backends.mha.set_fastpath_enabled(False) turns it off)",
    "torch.nn.functional.cross_entropy: its log_softmax is inside ATen; override() replaces it",
    "alpha_dropout, feature_alpha_dropout, rrelu, nn.LSTM's and nn.GRU's dropout",
    "torch.special.softmax, torch.special.log_softmax, torch.dropout_, torch.feature_dropout, torch.native_dropout",
    "code that torch.jit.script compiles or torch.onnx.export(dynamo=False) exports",
    "torch.cuda.amp.GradScaler and torch.cpu.amp.GradScaler, which PyTorch deprecates: use torch.amp.GradScaler",
    "calls with out=, of integer or complex, sparse, nested, named or quantized tensors, of tensor "
    "subclasses, but DTensor, that override __torch_function__ or __torch_dispatch__, of devices other than "
    "CPU and CUDA, and all calls while forward-mode gradients (jvp, jacfwd, hessian) are taken: they go to PyTorch",
)


class Report(NamedTuple):
    """What patch() did: names that are twinops' now, and what still computes as PyTorch does."""

    replaced: list
    left_alone: list


def _contiguous(ours):
    """A softmax whose result lies in memory as PyTorch's does, so that `.view` of it goes on working. Its
    warning is of the caller's line, two calls further up: behind this function and _in_place_of's."""

    @functools.wraps(ours)
    def call(input, dim=None, _stacklevel=3, dtype=None, **more):
        if dim is not None:  # PyTorch looks at _stacklevel, which may be anything, only for its warning
            return ours(input, dim, dtype=dtype, **more).contiguous()
        return ours(input, dim, _stacklevel + 2, dtype, **more).contiguous()

    return call


def _softmax_of_torch(ours):
    """torch.softmax(input, dim, dtype=None), whose third argument may be given by position."""

    def call(input, dim, dtype=None):
        return ours(input, dim, dtype=dtype).contiguous()

    return call


def _places():
    nn = torch.nn.functional
    softmax, log_softmax = (_softmax_of_torch(getattr(functional, n)) for n in ("softmax", "log_softmax"))

    def dropout(input, p, train):
        if not 0.0 <= p <= 1.0:  # a ValueError in torch.nn.functional
            raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
        return functional.dropout(input, p, train)

    return [
        (nn, "softmax", _contiguous(functional.softmax)),
        (nn, "log_softmax", _contiguous(functional.log_softmax)),
        (nn, "softmin", _contiguous(functional.softmin)),
        (nn, "dropout", functional.dropout),
        (nn, "dropout1d", functional.dropout1d),
        (nn, "dropout2d", functools.partial(functional.dropout2d, _stacklevel=3)),
        (nn, "dropout3d", functools.partial(functional.dropout3d, _stacklevel=3)),
        (torch, "softmax", softmax),
        (torch, "log_softmax", log_softmax),
        (torch, "dropout", dropout),
        (torch.Tensor, "softmax", softmax),
        (torch.Tensor, "log_softmax", log_softmax),
    ]


# Functions that call what changes, and that Dynamo takes for one call each without looking into them.
_CALLERS = ("multi_head_attention_forward", "gumbel_softmax")


def _around(original):
    """The same under patch() alone: a compiled call of it is compiled anew when it changes."""

    @functools.wraps(original)
    def call(*args, **kwargs):
        return original(*args, **kwargs)

    call.__prepare_scriptable__ = lambda: original
    return call


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_has_names = getattr(torch.Tensor, "has_names", lambda x: False)  # later versions of PyTorch have no names
_OF_TRACES = (FakeTensor, FunctionalTensor)


def _is_foreign(x):
    """Whether x is of a subclass that overrides what PyTorch's functions do."""
    kind = type(x)
    if kind in _PLAIN or isinstance(x, _OF_TRACES) or sharding.is_sharded(x):
        return False
    function = getattr(kind.__torch_function__, "__func__", None)
    return (
        function is not torch.Tensor.__torch_function__.__func__
        or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    )


def _is_ours(x, dtype):
    if not isinstance(x, torch.Tensor) or _is_foreign(x):
        return False
    if not _is_compiling() and _has_names(x):  # a compiled graph takes no names
        return False
    if x.layout is not torch.strided or x.device.type not in ("cpu", "cuda", "meta"):
        return False
    return (x.dtype if dtype is None else dtype) in _TYPES and not x.is_nested


def _is_dim(dim, required):
    """Whether dim is an axis by its number: by a name PyTorch finds one too, and it refuses the others."""
    if dim is None:
        return not required
    return not isinstance(dim, (bool, float, str))


def _is_for_exporter(training):
    """Whether an exporter that records this call wants PyTorch's: torch.onnx.export(dynamo=False) knows no
    others, and in a program of torch.export a dropout in eval mode is a node that tools look for, not nothing."""
    if _is_compiling():
        return training is False and torch.compiler.is_exporting()
    return _jit_trace() is not None and torch.onnx.is_in_onnx_export()


def _is_forward_mode():
    """Whether forward-mode gradients are taken. A compiled graph takes them without telling forward_ad."""
    if forward_ad._current_level >= 0:
        return True
    if torch.compiler.is_dynamo_compiling() or not _is_transformed():
        return False
    return any(i.key() == TransformType.Jvp for i in get_interpreter_stack())


# torch.jit.script, which takes nothing of twinops, compiles PyTorch's own in the place of ours. Of those that
# are not written in Python it is told by these.
def _scripted_softmax(input: torch.Tensor, dim: int, dtype: Optional[int] = None):
    return input.softmax(dim, dtype)


def _scripted_log_softmax(input: torch.Tensor, dim: int, dtype: Optional[int] = None):
    return input.log_softmax(dim, dtype)


def _scripted_dropout(input: torch.Tensor, p: float, train: bool):
    return torch._VF.dropout(input, p, train)


_SCRIPTED = {
    torch.softmax: _scripted_softmax,
    torch.log_softmax: _scripted_log_softmax,
    torch.dropout: _scripted_dropout,
}


def _in_place_of(owner, original, ours):
    """Ours; PyTorch's for arguments that only PyTorch's has, such as `out`, or that it refuses, tensors that
    twinops does not take, and while gradients are taken in forward mode."""
    parameters = inspect.signature(ours).parameters.values()
    known = {p.name for p in parameters}
    required = {p.name for p in parameters if p.default is p.empty}
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    training = "train" if "train" in known else "training"

    @functools.wraps(original, assigned=("__name__", "__doc__"), updated=())
    def call(*args, **kwargs):
        if not _is_compiling() and _function_modes() > 0:  # such as torch.set_default_device: they see the call
            return handle_torch_function(call, (), *args, **kwargs)
        if len(args) > len(by_position) or not known.issuperset(kwargs):
            return original(*args, **kwargs)
        given = {**dict(zip(by_position, args)), **kwargs}
        if not required.issubset(given) or not _is_dim(given.get("dim", 0), "dim" in required):
            return original(*args, **kwargs)
        if _is_forward_mode() or not _is_ours(given.get("input"), given.get("dtype")):
            return original(*args, **kwargs)
        if _is_for_exporter(given.get(training)):
            return original(*args, **kwargs)
        return ours(*args, **kwargs)

    if isinstance(original, types.BuiltinFunctionType) or isinstance(owner, type):
        del call.__wrapped__  # which has no signature
        call.__signature__ = inspect.signature(ours)

    # By these it is pickled.
    call.__module__, call.__qualname__ = owner.__name__, original.__name__
    if isinstance(owner, type):
        call.__module__, call.__qualname__ = owner.__module__, f"{owner.__qualname__}.{original.__name__}"
    call.__prepare_scriptable__ = lambda: _SCRIPTED.get(original, original)
    return call


def _held_elsewhere(originals):
    """Names by which loaded modules hold PyTorch's functions: `from torch.nn.functional import ...`."""
    by_id = {id(original): f"{owner.__name__}.{name}" for owner, name, original in originals}
    found = []
    for module_name, module in list(sys.modules.items()):
        if module is None or module_name.split(".")[0] in ("torch", "twinops"):
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if callable(value) and id(value) in by_id:
                found.append(f"{module_name}.{name}: imported before, it stays {by_id[id(value)]}")
    return sorted(found)


def _put():
    import torch._dynamo  # it looks PyTorch's functions up by their names once: before they change

    def replace(owner, name, ours):
        _originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, ours)

    for owner, name, ours in _places():
        replace(owner, name, _in_place_of(owner, getattr(owner, name), ours))
    for owner in (torch.amp, torch):
        if getattr(owner, "GradScaler", None) is torch.amp.grad_scaler.GradScaler:
            replace(owner, "GradScaler", GradScaler)
    for name in _CALLERS:
        replace(torch.nn.functional, name, _around(getattr(torch.nn.functional, name)))
    torch.compiler.config.cache_key_tag += _CACHE_TAG


def _take_out():
    config = torch.compiler.config
    config.cache_key_tag = config.cache_key_tag.replace(_CACHE_TAG, "")
    while _originals:
        owner, name, original = _originals.pop()
        if owner is torch.Tensor:  # which has it of its base class
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _ask(who):
    with _lock:
        if not _in_force:
            _put()
        _in_force.add(who)
        changed = [place for place in _originals if place[1] not in _CALLERS]
        replaced = [f"{owner.__name__}.{name}" for owner, name, _ in changed]
        return Report(replaced, [*LEFT_ALONE, *_held_elsewhere(changed)])


def _leave(who):
    with _lock:
        if who in _in_force:
            _in_force.remove(who)
            if not _in_force:
                _take_out()


def patch():
    """Puts twinops' functions and GradScaler into PyTorch, and returns what was replaced and what is
    left alone. Twice is as good as once."""
    return _ask(patch)


def unpatch():
    """Takes back patch(): every name is what it was before, at the end of the last block of patched() if
    it is called inside one."""
    _leave(patch)


@contextlib.contextmanager
def patched():
    """patch() for the length of a `with` block. Blocks may overlap, in threads too."""
    block = object()
    report = _ask(block)
    try:
        yield report
    finally:
        _leave(block)
