"""The place of a value in Paddle's autograd graph: hosts/paddle/autograd.hpp, and values that depend on
several tensors."""

import paddle

from twinops.paddle._differentiation import current

_native = None  # functions of the plugin, by name


class _Native:
    def __init__(self, find):
        for name in ("behind", "link", "node", "place_of", "stack"):
            setattr(self, name, find(name.encode()))


def bind(find):
    """find(name): a function of hosts/paddle/autograd.hpp, once the plugin is loaded."""
    global _native, link, place_of
    _native = _Native(find)
    link, place_of = _native.link, _native.place_of


def _zeros(shape, dtype, place):
    zeros = paddle.zeros(shape, dtype)
    return zeros if zeros.place == place else zeros._copy_to(place, True)


def _behind_several(tensors, value, gradients):
    """behind() for a dict: position -> tensor. The value stands behind a stack of one number for each tensor.
    When a backward pass reaches the stack, all gradients are computed at once and wait in `found`; the pass
    carries zeros on, and the hook of each tensor returns its gradient instead."""
    found, count, dtype, place = {}, len(tensors), value.dtype, value.place

    def compute(dy):
        found.update(enumerate(gradients(dy)))
        current.waiting.append(found)
        return _zeros([count], dtype, place)

    zero = _zeros([], dtype, place)  # the graph holds this one's memory instead of the tensors'
    within = [_native.node(t, lambda _, i=i: found.pop(i)) for i, t in tensors.items()]
    # Paddle takes no gradient without elements from a hook, but what came to it: there it has to fit.
    numbers = [link(t, zero) if t.size else t.sum().astype(dtype) for t in within]
    return _native.behind(_native.stack(*numbers), value, compute)


def behind(tensors, value, gradients):
    """`value`, a new tensor, as a function of those of `tensors` that want a gradient, at least one.

    gradients(dy): the gradients of the tensors, in their order, from the value's; those of tensors that want
        none are not used. In a pass with create_graph=True they have to be part of the autograd graph.
    """
    wanted = {i: t for i, t in enumerate(tensors) if t is not None and not t.stop_gradient}
    if len(wanted) > 1:
        return _behind_several(wanted, value, gradients)
    ((i, tensor),) = wanted.items()
    return _native.behind(tensor, value, lambda dy: gradients(dy)[i])
