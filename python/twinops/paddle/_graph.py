"""The place of a value in Paddle's graph of gradients: hosts/paddle/autograd.hpp, and values that depend on
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
    """Of `tensors`, a dict. The gradients are computed when a pass reaches what depends on all of them, and
    wait until the pass, which brings nothing but zeros along, has reached each tensor."""
    # The graph is not to hold the tensors.
    found, count, dtype, place = {}, len(tensors), value.dtype, value.place

    def compute(dy):
        found.update(enumerate(gradients(dy)))
        current.waiting.append(found)
        return _zeros([count], dtype, place)

    zero = _zeros([], dtype, place)
    within = [_native.node(t, lambda _, i=i: found.pop(i)) for i, t in tensors.items()]
    # Paddle takes no gradient without elements from a hook, but what came to it: there it has to fit.
    numbers = [link(t, zero) if t.size else t.sum().astype(dtype) for t in within]
    return _native.behind(_native.stack(*numbers), value, compute)


def behind(tensors, value, gradients):
    """`value`, a new tensor, behind those of `tensors` that have a gradient, at least one.

    gradients(dy): what comes for each of the tensors if dy comes for the value; tensors that have no
        gradient need none. In a pass with create_graph=True it is to be made of what has a history.
    """
    wanted = {i: t for i, t in enumerate(tensors) if t is not None and not t.stop_gradient}
    if len(wanted) > 1:
        return _behind_several(wanted, value, gradients)
    ((i, tensor),) = wanted.items()
    return _native.behind(tensor, value, lambda dy: gradients(dy)[i])
