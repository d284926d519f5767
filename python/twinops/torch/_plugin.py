"""Loads the plugin into PyTorch: afterwards torch.ops.twinops has every operator of the table."""

import ctypes
import functools
from typing import NamedTuple

from twinops._native import FOLDER, library, operators

_PLUGIN = FOLDER / "libtwinops_torch.so"
_BUILD = "`python -m pip install --force-reinstall --no-deps .` in twinops' folder"
_OLDEST = (2, 10)


def _import_torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "twinops.torch needs PyTorch, which this Python cannot import "
            f"({error}): `python -m pip install torch`"
        ) from error
    version = tuple(int(word) for word in torch.__version__.split(".")[:2])
    check_version(version, torch.__version__)
    return torch


def check_version(version, text):
    """The plugin speaks LibTorch's stable ABI as PyTorch 2.10 has it."""
    if version < _OLDEST:
        raise ImportError(
            f"twinops.torch needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or later; this is {text}: "
            "`python -m pip install --upgrade torch`"
        )


def is_in_place(op):
    """Whether the operator's outputs are lists: PyTorch's operator is `<name>_` then."""
    return any(a.is_output and a.is_list for a in operators()[op].arguments)


def functional_names():
    """The operators that give new tensors."""
    return [op for op in operators() if not is_in_place(op)]


def packed(attributes):
    """Attributes by name as an operator without a gradient takes them: floats by name, the others as one
    text (hosts/torch/signature.hpp)."""
    given, text = {}, ""
    for name, value in attributes.items():
        if type(value) is float:
            given[name] = value
        else:
            text += f"{name}={value};"
    given["attributes"] = text
    return given


@functools.cache
def load():
    """Registers every operator with PyTorch, once a process."""
    torch = _import_torch()
    library()
    if not _PLUGIN.exists():
        raise ImportError(
            f"this twinops has no PyTorch plugin ({_PLUGIN} is missing): no PyTorch was found when "
            f"it was installed. Install it again where PyTorch is: {_BUILD}"
        )
    if hasattr(torch.ops.twinops, "softmax"):
        raise ImportError(
            "operators of the name twinops::softmax are registered in this process already, by "
            "another copy of the twinops plugin. Load one only."
        )
    try:
        torch.ops.load_library(str(_PLUGIN))
    except OSError as error:
        raise ImportError(f"PyTorch {torch.__version__} could not load {_PLUGIN}: {error}") from error
    names = [f"{op}_" if is_in_place(op) else op for op in operators()]
    missing = [name for name in names if not hasattr(torch.ops.twinops, name)]
    if missing:
        raise ImportError(f"twinops' plugin did not register {missing}: {_BUILD}")


def path():
    return str(_PLUGIN)


class Result(NamedTuple):
    """What a functional operator gives (hosts/torch/signature.hpp)."""

    name: str
    like: str  # the argument that it is like
    shape: str  # "like", "dense", "row" or "last:ATTRIBUTE"
    type: str  # a type's name or "same"
    type_attribute: str  # "" if there is none
    optional: bool


@functools.cache
def results(op):
    plugin = ctypes.CDLL(path())
    plugin.twinops_torch_results.restype = ctypes.c_char_p
    plugin.twinops_torch_results.argtypes = [ctypes.c_char_p]
    described = []
    for line in plugin.twinops_torch_results(op.encode()).decode().splitlines():
        name, like, shape, type_, attribute = line.split()
        optional = attribute.endswith("?")
        described.append(Result(name, like, shape, type_, attribute.strip("-?"), optional))
    return described
