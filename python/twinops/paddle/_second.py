"""Derivatives of derivatives. The gradient of a linear operator is linear too, and its own gradient is the
operator again; the gradients of softmax's gradients are made of differentiable operators. So there are
derivatives of any order.
"""

import contextlib

import paddle
from paddle.base import core

from twinops.paddle import _eager, _graph
from twinops.paddle._differentiation import current


def gradients(state, dy):
    """The gradients of a call (_eager.State), differentiable with respect to dy and to the call's input."""
    plan, kept, attributes = state.plan, state.kept, state.attributes
    if plan.reads_result and len(plan.wanted) > 1:
        raise NotImplementedError(
            f"twinops has no second derivative of {plan.op} whose {plan.wanted[1]} has a gradient: add it "
            "to x before, or call paddle.grad with create_graph=False"
        )
    if plan.op not in SECOND and plan.op != "softmax_dropout":
        raise NotImplementedError(
            f"twinops has no second derivative of {plan.op}: call paddle.grad with create_graph=False"
        )
    if plan.op == "softmax_dropout":  # its parts, one after the other: the same bits
        dropout, plan = (_eager.plan_of(op, {}) for op in ("dropout", "softmax"))
        random = {**kept, "mask": kept.get("dropout_mask"), dropout.dy: dy}
        random = {n: random.get(n) for n in (*dropout.kept_inputs, "mask", dropout.dy)}
        own = {k: v for k, v in attributes.items() if k in dropout.attributes}
        (dy,) = _gradients(dropout, random, own, [dy])
        masks = {n: kept[n] for n in ("mask", "lengths", "bias") if n in kept}
        kept = {"out": kept["probabilities"], **masks}
    tensors = [dy]
    if plan.reads_result:  # it was kept without its history: it is a function of the call's input again
        again = _eager.State(plan, attributes, kept, state.place)
        x = _graph.link(state.place, kept["out"])
        x.stop_gradient = False
        y = _graph.behind([x], kept["out"], again.gradients)
        kept, tensors = {**kept, "out": y}, [y, dy]
    return _gradients(plan, {**kept, plan.dy: dy}, attributes, tensors)


def _gradients(plan, kept, attributes, tensors):
    """An operator's gradients, themselves to be differentiated with respect to `tensors`."""
    found = plan.call_gradient(kept, attributes)
    if not core._has_grad() or all(t.stop_gradient for t in tensors):
        return found

    return [_graph.behind(tensors, v, _Derivative(plan, kept, attributes, i)) for i, v in enumerate(found)]


class _Derivative:
    """The gradients of the tensors that gradient i is a function of, from dd, the gradient of that."""

    def __init__(self, plan, kept, attributes, i):
        self.plan, self.kept, self.attributes, self.i = plan, kept, attributes, i

    def __call__(self, dd):
        if self.kept is None:
            raise _eager.gone(self.plan.op)
        with contextlib.nullcontext() if current.creates else paddle.no_grad():
            found = SECOND[self.plan.op](self.plan, self.kept, self.attributes, self.i, dd)
        if not current.retains:
            self.kept = None
        return found


def _linear(plan, kept, attributes, i, dd):
    """Of a linear operator: it is applied to dd in the place of its input i, with the mask that it had."""
    inputs = {n: kept.get(n) for n in plan.kept_inputs if n.endswith(("tensor", "seeds"))}
    if i > 0:  # the first input is always there
        inputs[plan.wanted[0]] = paddle.zeros_like(kept[plan.dy])
    inputs[plan.wanted[i]] = dd
    attributes = {k: v for k, v in attributes.items() if not k.endswith("_type")}
    return (_eager.run(plan.op, inputs, attributes)[0],)


def _wide(tensor):
    return tensor.astype("float32") if tensor.dtype in (paddle.float16, paddle.bfloat16) else tensor


def _filler(kept, attributes):
    """Puts a number where an element is masked out."""
    y, lengths = kept["out"], kept.get("lengths")
    axis, out = attributes.get("axis", -1), None
    for m in (kept.get("mask"), kept.get("bias")):
        if m is not None:
            m = m == float("-inf") if m.is_floating_point() else m.astype("bool")
            out = m if out is None else out | m
    if lengths is not None:
        after = -1 - (axis if axis < 0 else axis - y.ndim)
        index = paddle.arange(y.shape[axis]).reshape([-1] + [1] * after)
        lengths = lengths.astype("int64").reshape([*lengths.shape, *[1] * (y.ndim - lengths.ndim)])
        out = index >= lengths if out is None else out | (index >= lengths)
    if attributes.get("causal"):
        rows, columns = (paddle.arange(n) for n in y.shape[-2:])
        above = columns > rows.unsqueeze(1) + attributes.get("causal_offset", 0)
        out = above if out is None else out | above
    if out is None:
        return lambda tensor: tensor
    return lambda tensor: paddle.where(out, paddle.zeros([], tensor.dtype), tensor)


def _softmax(plan, kept, attributes, _, ddx):
    """dx = c y (dy - sum(y dy)): with respect to y and, the matrix being symmetric, to dy."""
    y, dy = kept["out"], kept[plan.dy]
    axis, c = attributes.get("axis", -1), attributes.get("scale", 1.0)
    (ddy,) = _gradients(plan, {**kept, plan.dy: ddx}, attributes, [y, ddx])
    filled = _filler(kept, attributes)
    v, w, z = (filled(_wide(t)) for t in (y, dy, ddx))
    sums = [(v * u).sum(axis, keepdim=True) for u in (w, z)]
    return filled((c * (z * (w - sums[0]) - w * sums[1])).astype(y.dtype)), ddy


def _log_softmax(plan, kept, attributes, _, ddx):
    """dx = c (dy - exp(y) sum(dy))."""
    y, dy = kept["out"], kept[plan.dy]
    axis, c = attributes.get("axis", -1), attributes.get("scale", 1.0)
    filled = _filler(kept, attributes)
    p, w, z = (filled(t) for t in (_wide(y).exp(), _wide(dy), _wide(ddx)))
    ddy = c * (z - (p * z).sum(axis, keepdim=True))
    return tuple(
        filled(t.astype(y.dtype)) for t in (-c * z * p * w.sum(axis, keepdim=True), ddy)
    )


# Operators whose gradients can be differentiated: how. Others are refused.
SECOND = {
    "bias_dropout_residual": _linear,
    "dropout": _linear,
    "log_softmax": _log_softmax,
    "random_projection": _linear,
    "softmax": _softmax,
}
