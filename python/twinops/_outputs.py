"""What a call gives: the shape and the type of each output of an operator, worked out from the
operator table for hosts that make the outputs in Python."""

import functools
import math
from typing import NamedTuple

from twinops._native import operators

# Outputs that are not of the shape and type of the input that they are like. A new operator whose
# outputs are needs no line here. `shape`: "last" is the last dimension of `like` alone, "resized" is
# like's with a last dimension of the parameter `size`.
_RULES = {
    ("check_finite_and_unscale", "found_inf"): {"like": "scale", "type": "bool"},
    ("philox_words", "words"): {"type": "uint32"},
    ("uniform", "out"): {"type": "float32"},
    ("bias_dropout_residual_grad", "dbias"): {"shape": "last"},
    ("softmax", "out"): {"typed": True},
    ("log_softmax", "out"): {"typed": True},
    ("softmax_dropout", "y"): {"typed": True},
    ("softmax_dropout", "probabilities"): {"typed": True},
    ("softmax_grad", "dx"): {"typed": True},
    ("log_softmax_grad", "dx"): {"typed": True},
    ("softmax_dropout_grad", "dx"): {"typed": True},
    ("random_projection", "y"): {"shape": "resized", "size": "k"},
    ("random_projection_grad", "dx"): {"shape": "resized", "size": "columns"},
}

# Attributes that make an output which nobody has written before: it begins as 0.
FRESH = {"check_finite_and_unscale": {"reset": True}}


class Output(NamedTuple):
    name: str
    is_list: bool
    is_required: bool
    types: tuple  # that it may have
    like: str  # the input that it is like; "" if the operator has none: its shape is a parameter
    shape: str = "same"
    type: str = ""  # "" is like's
    size: str = ""  # of a resized output: the parameter for its last dimension
    on_demand: bool = False  # made only where it is asked for
    typed: bool = False  # of the floating types another than like's may be asked for

    @property
    def default(self):
        """The type of an output that may be left out if nobody says: bits for a mask; None if it is
        then left out."""
        if self.on_demand:
            return None
        return "uint32" if not self.is_required and "uint32" in self.types else "same"

    def type_for(self, asked, like):
        """The type where `asked` is wanted ("same" or a type) and the input has the type `like`."""
        if asked == "same":
            return self.type or like
        if asked not in self.types:
            raise ValueError(
                f"{self.name}: expected an array to write, None to leave it out, 'same' or one of "
                f"{', '.join(self.types)}; got {asked!r}"
            )
        return asked

    def shape_for(self, type, like, size=None):
        """The shape of an output of this type where the input has the shape `like`."""
        like = tuple(like)
        if self.shape == "last":
            return like[-1:]
        if self.shape == "resized":
            return (*like[:-1], size)
        if type == "uint32" and self.type != "uint32":
            return ((math.prod(like) + 31) // 32,)  # a bit for each element
        return like


def bias_shape(bias, like):
    """The shape that a bias of shape `bias` takes where it is added to `like`, so that the operator gives
    its gradient: that of the last dimension, or `like` itself. A bias that does not broadcast keeps its
    own, and is refused."""
    bias, like = tuple(bias), tuple(like)
    if bias == like or not like:
        return bias
    if bias and bias[-1] == like[-1] and all(n == 1 for n in bias[:-1]):
        return like[-1:]
    behind = like[len(like) - len(bias) :]
    fits = len(bias) <= len(like) and all(n in (1, m) for n, m in zip(bias, behind))
    return like if fits else bias


def _like(op, output):
    """The input that an output is like where no rule says: a list of its list, a state of what it was,
    else the first one that is a tensor."""
    inputs = op.inputs
    if output.is_list:
        return next(a.name for a in inputs if a.is_list)
    before = output.name.removesuffix("_out")
    tensors = [a.name for a in inputs if not a.is_list and a.is_required]
    # A gradient is like the gradient that it is made from.
    first = next((n for n in tensors if n == "dy"), tensors[0] if tensors else "")
    return before if before != output.name and before in tensors else first


def _gradient(op, output):
    """The gradient of an input of the same operator, "dbias" of "bias", is like that input."""
    like = output.name[1:]
    if output.name[0] != "d" or like not in (a.name for a in op.inputs):
        return {}
    return {"like": like, "on_demand": True}


@functools.cache
def outputs(name):
    """The outputs of the operator `name`, in the table's order."""
    op = operators()[name]
    return tuple(
        Output(
            a.name,
            a.is_list,
            a.is_required,
            a.types,
            **{"like": _like(op, a), **_gradient(op, a), **_RULES.get((name, a.name), {})},
        )
        for a in op.outputs
    )


# What says which elements of a softmax are masked out: inputs and attributes of its gradient.
MASKS, CAUSAL = ("mask", "lengths", "bias"), ("causal", "causal_offset")


def needs_masks(op, one_has_gradient):
    """Whether the gradient of an operator of the softmax family is to be told of its masks, of which one,
    a mask of numbers or a bias, may have a gradient itself. That of probabilities is 0 where an element is
    masked out, because its probability is, unless what comes for it is not finite; and a gradient that
    reads masks takes several times as long."""
    return one_has_gradient or op not in ("softmax", "softmax_dropout")
