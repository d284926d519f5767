"""Eager calls of the plugin (hosts/paddle/eager.cpp). Their place in Paddle's graph of gradients is made
in _graph.py; the first derivative is the operator `<op>_grad`, and derivatives of that are in _second.py.
An output that the gradient reads is kept without its history, which would hold itself.
"""

import ctypes

from paddle.base import core

from twinops.paddle import _graph
from twinops.paddle._differentiation import current

_GRAD = "@GRAD"


class _Native:
    def __init__(self, path):
        # PyDLL: the functions give Python's objects, and hold its lock.
        library = ctypes.PyDLL(str(path))
        self.find = library.twinops_paddle_find
        self.find.argtypes, self.find.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
        self.function = library.twinops_paddle_function
        self.function.argtypes, self.function.restype = [ctypes.c_void_p], ctypes.py_object
        self.serve = library.twinops_paddle_serve
        self.serve.argtypes, self.serve.restype = [ctypes.c_char_p, ctypes.c_int], None
        self._names = library.twinops_paddle_names
        self._names.argtypes, self._names.restype = [ctypes.c_void_p], ctypes.c_char_p
        self.autograd = library.twinops_paddle_autograd
        self.autograd.argtypes, self.autograd.restype = [ctypes.c_char_p], ctypes.py_object

    def names(self, signature):
        """Of inputs, outputs and attributes: a list each."""
        parts = self._names(signature).decode().split(";")
        return [[name for name in part.split(",") if name] for part in parts]


_native = None


def bind(path):
    """Finds the functions of the plugin, once it is loaded."""
    global _native
    _native = _Native(path)
    _graph.bind(_native.autograd)


def serve_device(device_type, memory):
    """Says what the memory of one of Paddle's custom devices is, so that twinops computes there.

    device_type: the name by which its plugin registers it with Paddle, a str.
    memory: "cuda": CUDA's, of the device of the same number, and its streams are cudaStream_t; "cpu":
        the host's, and twinops waits for a device's stream before it computes. Else ValueError.

    A tensor on a device of which nothing was said is refused.
    """
    kinds = {"cpu": 1, "cuda": 2}
    if memory not in kinds:
        raise ValueError(f"memory argument should be 'cuda' or 'cpu'; got {memory!r}")
    _native.serve(device_type.encode(), kinds[memory])


class Plan:
    """What is known of an operator before it is called. `name` is Paddle's: "twinops_softmax"."""

    def __init__(self, op, name):
        self.op = op
        forward, gradient = (_native.find(name.encode(), i) for i in (0, 1))
        self.forward = _native.function(forward)
        self.wanted = ()
        if gradient is None:
            return
        self._gradient = _native.function(gradient)
        _, outputs, _ = _native.names(forward)
        read, wanted, self.attributes = _native.names(gradient)
        self.dy = next(n for n in read if n.endswith(_GRAD))
        kept = [n for n in read if n != self.dy]
        self.kept_outputs = [(n, outputs.index(n)) for n in kept if n in outputs]
        self.kept_inputs = [n for n in kept if n not in outputs]
        # Inputs that have a gradient, in the order of the gradient's outputs.
        self.wanted = tuple(wanted)
        # Whether the gradient reads an output that depends on x.
        self.reads_result = any(n in ("out", "probabilities") for n, _ in self.kept_outputs)

    def call_gradient(self, given, attributes):
        names = self.attributes
        return self._gradient(given, {k: v for k, v in attributes.items() if k in names})


def gone(op):
    """The error of a pass that comes too late."""
    return RuntimeError(
        f"{op}: a backward pass through a graph that an earlier one did not keep: give that one "
        "retain_graph=True"
    )


class State:
    """What a backward pass needs of a call. `attributes` are the operator's."""

    __slots__ = ("attributes", "kept", "place", "plan", "versions")

    def __init__(self, plan, attributes, kept, place):
        self.plan, self.attributes, self.place = plan, attributes, place
        self.kept, self.versions = kept, [t.inplace_version for t in kept.values()]

    @staticmethod
    def of_call(plan, attributes, inputs, outputs, tensors):
        kept = {name: outputs[i].detach() for name, i in plan.kept_outputs}
        for name in plan.kept_inputs:
            tensor = inputs.get(name)
            if tensor is not None:
                kept[name] = tensor
        # Without a place there is no second derivative.
        single = len(tensors) == 1 and plan.reads_result
        return State(plan, attributes, kept, _graph.place_of(tensors[0]) if single else None)

    def check(self):
        if self.kept is None:
            raise gone(self.plan.op)
        for (name, tensor), version in zip(self.kept.items(), self.versions):
            if tensor.inplace_version != version:
                raise RuntimeError(
                    f"{self.plan.op}: {name}, which its gradient reads, was modified by an inplace "
                    f"operation: its version is {tensor.inplace_version}, expected {version}"
                )

    def gradients(self, dy):
        """For every input that may have one."""
        self.check()
        if current.creates and core._has_grad():
            from twinops.paddle import _second

            return _second.gradients(self, dy)
        found = self.plan.call_gradient({**self.kept, self.plan.dy: dy}, self.attributes)
        if not current.retains:
            self.kept = None  # memory is given back as the pass goes
        return found


# ---- calls ---------------------------------------------------------------------------------------


_plans = {}  # by name, where no input has a say in which variant it is: those are asked for each time
_variants = {}


def plan_of(op, inputs):
    mask, bias = inputs.get("mask"), inputs.get("bias")
    plain = (mask is None or mask.stop_gradient) and (bias is None or bias.stop_gradient)
    plan = _plans.get(op) if plain else None
    if plan is not None:
        return plan
    from twinops.paddle import _plugin

    name = _plugin.variant(op, inputs)
    plan = _variants.get(name)
    if plan is None:
        plan = _variants[name] = Plan(op, name)
        if "_with_" not in name and ("softmax" in op or not _plugin.gradient_if_given(op)):
            _plans[op] = plan
    return plan


def run(op, inputs, attributes):
    """The list of outputs of an eager call."""
    plan = plan_of(op, inputs)
    if plan.wanted and core._has_grad():
        tensors = [inputs.get(n) for n in plan.wanted]
        for tensor in tensors:
            if getattr(tensor, "stop_gradient", True) is False:
                outputs = plan.forward(inputs, attributes)
                state = State.of_call(plan, attributes, inputs, outputs, tensors)
                outputs[0] = _graph.behind(tensors, outputs[0], state.gradients)
                return outputs
    return plan.forward(inputs, attributes)
