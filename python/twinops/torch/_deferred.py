"""What torch.compile does not trace into. Its decorators import the compiler, which takes a second, so they
wait until it is loaded: it finds such a function as an attribute of this module, which is made when it is
asked for."""

import sys

import torch

_waiting = {}  # name -> (function, what decorates it)


def in_graph(function):
    """torch.compiler.allow_in_graph, of the function of this module that has the given one's name."""
    _waiting[function.__name__] = function, torch.compiler.allow_in_graph
    return function


def breaks_graph(reason):
    """torch.compiler.disable, likewise."""

    def wait(function):
        _waiting[function.__name__] = function, lambda f: torch.compiler.disable(f, reason=reason)
        return function

    return wait


def __getattr__(name):
    if name not in _waiting:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function, decorate = _waiting[name]
    if "torch._dynamo" not in sys.modules:
        return function
    made = globals()[name] = decorate(function)
    return made
