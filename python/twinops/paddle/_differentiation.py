"""What is seen of Paddle's own differentiation, and what is refused there: which inputs a gradient is
asked for, and second derivatives in programs, which Paddle would take for zero."""

import functools
import threading

from paddle.base import core


class _Targets(threading.local):
    """What paddle.grad, while it runs in this thread, differentiates with respect to."""

    nodes = None  # node -> whether a way leads from it to a target

    def leads_from(self, node):
        way = [node]
        while way:
            node = way[-1]
            below = [n for n in node.next_functions if n is not None]
            new = [n for n in below if n not in self.nodes]
            if node in self.nodes or not new:
                self.nodes.setdefault(node, any(self.nodes[n] for n in below))
                way.pop()
            way += new
        return self.nodes[node]


_targets = _Targets()


class Needed:
    """Which of the inputs of a call need a gradient. paddle.grad cuts off those that lead to none of
    its targets, and refuses a gradient for them; it does not tell a PyLayer which they are."""

    __slots__ = ("flags", "nodes")

    def __init__(self, tensors):
        self.flags = [not t.stop_gradient for t in tensors]
        several = sum(self.flags) > 1
        self.nodes = [t.grad_fn for t in tensors] if several else None

    def only(self, gradients):
        """The gradients that are needed, None in the place of others."""
        flags = self.flags
        if self.nodes is not None and _targets.nodes is not None:
            flags = [f and _targets.leads_from(n) for f, n in zip(flags, self.nodes)]
        return tuple(g if needed else None for g, needed in zip(gradients, flags))


def _follow_grad():
    """Sees what paddle.grad differentiates with respect to."""
    original = core.eager.run_partial_grad

    @functools.wraps(original)
    def run_partial_grad(outputs, inputs, *args, **kwargs):
        before = _targets.nodes
        _targets.nodes = {t.grad_fn: True for t in inputs if not t.stop_gradient}
        try:
            return original(outputs, inputs, *args, **kwargs)
        finally:
            _targets.nodes = before

    core.eager.run_partial_grad = run_partial_grad


def _refuse_second_derivatives_of_programs():
    """Paddle's programs take the derivative of a custom operator's gradient for zero: what would
    differentiate one again is refused while the program is made."""
    from paddle.autograd import ir_backward

    original = ir_backward.calc_gradient_helper

    @functools.wraps(original)
    def calc_gradient_helper(outputs, *args, **kwargs):
        way, seen = [v.get_defining_op() for v in outputs], set()
        while way:
            op = way.pop()
            if op is None or op.id() in seen:
                continue
            seen.add(op.id())
            if op.name().startswith("custom_op.twinops_") and "_grad" in op.name():
                raise NotImplementedError(
                    f"{op.name()}: a program has no second derivative of twinops' operators: Paddle would "
                    "take it for zero. Differentiate in dygraph"
                )
            way += [v.get_defining_op() for v in op.operands_source()]
        return original(outputs, *args, **kwargs)

    ir_backward.calc_gradient_helper = calc_gradient_helper


_follow_grad()
_refuse_second_derivatives_of_programs()
