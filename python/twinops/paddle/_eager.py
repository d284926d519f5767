"""Eager calls of the plugin (hosts/paddle/eager.cpp), and their place in Paddle's autograd.

The first derivative is the operator `<op>_grad`. Derivatives of any order follow from it: of an
operator that is linear the gradient is linear too, and its own gradient is the operator again; what
softmax's is says `_SECOND`, in operators that exist. An output that the gradient reads is kept
without its history, which would hold itself, and is given it back (`_Again`) where a gradient is
differentiated.
"""

import ctypes

import paddle
from paddle.autograd import PyLayer
from paddle.base import core

from twinops import _outputs
from twinops.paddle._differentiation import Needed

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
        library.twinops_paddle_link.restype = ctypes.py_object
        self.link = library.twinops_paddle_link()

    def names(self, signature):
        """Of inputs, outputs and attributes: a list each."""
        parts = self._names(signature).decode().split(";")
        return [[name for name in part.split(",") if name] for part in parts]


_native = None


def bind(path):
    """Finds the functions of the plugin, once it is loaded."""
    global _native
    _native = _Native(path)


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
        if not _outputs.needs_masks(op, not set(_outputs.MASKS).isdisjoint(wanted)):
            self.kept_inputs = [n for n in self.kept_inputs if n not in _outputs.MASKS]
            self.attributes = [n for n in self.attributes if n not in _outputs.CAUSAL]
        # Whether the gradient reads an output that depends on x.
        self.reads_result = any(n in ("out", "probabilities") for n, _ in self.kept_outputs)

    def call_gradient(self, given, attributes):
        names = self.attributes
        return self._gradient(given, {k: v for k, v in attributes.items() if k in names})


class _State:
    """What a backward pass needs of a call. `attributes` are the operator's."""

    __slots__ = ("attributes", "kept", "link", "needed", "others", "plan", "versions")

    def __init__(self, plan, attributes, kept, needed, link):
        self.plan, self.attributes, self.needed, self.link = plan, attributes, needed, link
        self._keep(kept)

    def _keep(self, kept):
        self.kept, self.versions = kept, [t.inplace_version for t in kept.values()]

    @staticmethod
    def of_call(plan, attributes, tensors):
        # The gradient of a single input is asked for if any is; without `link` there is no second
        # derivative.
        single = len(tensors) == 1
        link = _native.link(tensors[0], None) if single and plan.reads_result else None
        return _State(plan, attributes, {}, None if single else Needed(tensors), link)

    def compute(self, inputs):
        """The first output; `others` holds the rest."""
        plan = self.plan
        outputs = plan.forward(inputs, self.attributes)
        kept = {name: outputs[i].detach() for name, i in plan.kept_outputs}
        for name in plan.kept_inputs:
            tensor = inputs.get(name)
            if tensor is not None:
                kept[name] = tensor
        self._keep(kept)
        self.others = outputs[1:]
        return outputs[0]

    def check(self):
        for (name, tensor), version in zip(self.kept.items(), self.versions):
            if tensor.inplace_version != version:
                raise RuntimeError(
                    f"{self.plan.op}: {name}, which its gradient reads, was modified by an inplace "
                    f"operation: its version is {tensor.inplace_version}, expected {version}"
                )

    def gradients(self, dy):
        """For every input that may have one, None where it is not needed."""
        self.check()
        if core._has_grad():
            found = _differentiable(self, dy)
        else:
            found = self.plan.call_gradient({**self.kept, self.plan.dy: dy}, self.attributes)
        return tuple(found) if self.needed is None else self.needed.only(found)


class _Call(PyLayer):
    """An operator; `tensors` are those of its inputs that have a gradient. Outputs beside the first
    have none: they do not go through autograd, which would keep what it is told of them."""

    @staticmethod
    def forward(ctx, state, inputs, *tensors):
        ctx.state = state
        return state.compute(inputs)

    @staticmethod
    def backward(ctx, dy):
        return ctx.state.gradients(dy)


class _Again(PyLayer):
    """The first output of a call, which depends on `link` as it did on the input."""

    @staticmethod
    def forward(ctx, state, link):
        ctx.state = state
        return state.kept["out"].detach()

    @staticmethod
    def backward(ctx, dy):
        return ctx.state.gradients(dy)[0]


class _Gradient(PyLayer):
    """The gradient of an operator, itself to be differentiated."""

    @staticmethod
    def forward(ctx, plan, kept, attributes, *tensors):
        ctx.state = plan, kept, attributes, Needed(tensors)
        found = plan.call_gradient(kept, attributes)
        return found[0] if len(found) == 1 else tuple(found)

    @staticmethod
    def backward(ctx, *dds):
        plan, kept, attributes, needed = ctx.state
        return needed.only(_SECOND[plan.op](plan, kept, attributes, dds))


def _differentiable(state, dy):
    """The gradients as functions of dy, and of what was kept of the call."""
    plan, kept, attributes = state.plan, state.kept, state.attributes
    if plan.reads_result and len(plan.wanted) > 1:
        raise NotImplementedError(
            f"twinops has no second derivative of {plan.op} whose {plan.wanted[1]} has a gradient: add it "
            "to x before, or call paddle.grad with create_graph=False"
        )
    if plan.op not in _SECOND and plan.op != "softmax_dropout":
        raise NotImplementedError(
            f"twinops has no second derivative of {plan.op}: call paddle.grad with create_graph=False"
        )
    if plan.op == "softmax_dropout":  # its parts, one after the other: the same bits
        dropout, plan = (plan_of(op, {}) for op in ("dropout", "softmax"))
        random = {**kept, "mask": kept.get("dropout_mask"), dropout.dy: dy}
        random = {n: random.get(n) for n in (*dropout.kept_inputs, "mask", dropout.dy)}
        own = {k: v for k, v in attributes.items() if k in dropout.attributes}
        dy = _Gradient.apply(dropout, random, own, dy)
        masks = {n: kept[n] for n in ("mask", "lengths", "bias") if n in kept}
        kept = {"out": kept["probabilities"], **masks}
        state = _State(plan, attributes, kept, state.needed, state.link)
    tensors = [dy]
    if plan.reads_result:
        y = _Again.apply(state, _native.link(state.link, kept["out"]))
        kept, tensors = {**kept, "out": y}, [y, dy]
    found = _Gradient.apply(plan, {**kept, plan.dy: dy}, attributes, *tensors)
    return found if isinstance(found, tuple) else (found,)


# ---- gradients of gradients ----------------------------------------------------------------------


def _linear(plan, kept, attributes, dds):
    """Of a linear operator: it is applied to what came for its inputs, with the masks it had."""
    inputs = {n: kept.get(n) for n in plan.kept_inputs if n.endswith(("tensor", "seeds"))}
    inputs.update(zip(plan.wanted, dds))
    attributes = {k: v for k, v in attributes.items() if not k.endswith("_type")}
    return (run(plan.op, inputs, attributes)[0],)


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


def _softmax(plan, kept, attributes, dds):
    """dx = c y (dy - sum(y dy)): with respect to y and, the matrix being symmetric, to dy."""
    (ddx,), y, dy = dds, kept["out"], kept[plan.dy]
    axis, c = attributes.get("axis", -1), attributes.get("scale", 1.0)
    ddy = _Gradient.apply(plan, {**kept, plan.dy: ddx}, attributes, y, ddx)
    filled = _filler(kept, attributes)
    v, w, z = (filled(_wide(t)) for t in (y, dy, ddx))
    sums = [(v * u).sum(axis, keepdim=True) for u in (w, z)]
    return filled((c * (z * (w - sums[0]) - w * sums[1])).astype(y.dtype)), ddy


def _log_softmax(plan, kept, attributes, dds):
    """dx = c (dy - exp(y) sum(dy))."""
    (ddx,), y, dy = dds, kept["out"], kept[plan.dy]
    axis, c = attributes.get("axis", -1), attributes.get("scale", 1.0)
    filled = _filler(kept, attributes)
    p, w, z = (filled(t) for t in (_wide(y).exp(), _wide(dy), _wide(ddx)))
    ddy = c * (z - (p * z).sum(axis, keepdim=True))
    return tuple(
        filled(t.astype(y.dtype)) for t in (-c * z * p * w.sum(axis, keepdim=True), ddy)
    )


# Operators whose gradients can be differentiated: how. Others are refused.
_SECOND = {
    "bias_dropout_residual": _linear,
    "dropout": _linear,
    "log_softmax": _log_softmax,
    "random_projection": _linear,
    "softmax": _softmax,
}


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
                state = _State.of_call(plan, attributes, tensors)
                first, others = _Call.apply(state, inputs, *tensors), state.others
                state.others = None
                return [first, *others]
    return plan.forward(inputs, attributes)
