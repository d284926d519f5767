"""Two changes to Paddle's own differentiation: it is known how the backward pass that runs was asked for, and
second derivatives in programs, which Paddle would take for zero, are refused."""

import contextlib
import functools
import threading

from paddle.base import core


class _Pass(threading.local):
    """The backward pass that runs in this thread."""

    retains = True  # whether its graph is kept for another one
    creates = False  # whether it is to be differentiated itself

    def __init__(self):
        self.waiting = []  # dicts of gradients that are computed, and may never be fetched

    @contextlib.contextmanager
    def begins(self, retains, creates):
        """A context: the pass that runs in it, maybe within another one."""
        before = self.retains, self.creates, self.waiting
        self.retains, self.creates, self.waiting = retains, creates, []
        try:
            yield
        finally:
            for found in self.waiting:
                found.clear()
            self.retains, self.creates, self.waiting = before


current = _Pass()


def _follow_backward():
    """Sets `current` in Tensor.backward and paddle.grad."""
    backward, grad = core.eager.run_backward, core.eager.run_partial_grad

    @functools.wraps(backward)
    def run_backward(tensors, gradients, retain_graph=False, *args):
        with current.begins(retain_graph, False):
            return backward(tensors, gradients, retain_graph, *args)

    @functools.wraps(grad)
    def run_partial_grad(outputs, inputs, gradients, retain_graph, create_graph, *args):
        # Paddle runs a copy of the graph, and keeps the graph itself whatever it is told.
        with current.begins(True, create_graph):
            return grad(outputs, inputs, gradients, retain_graph, create_graph, *args)

    core.eager.run_backward, core.eager.run_partial_grad = run_backward, run_partial_grad


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


_follow_backward()
_refuse_second_derivatives_of_programs()
