"""Gradients of torch.ops.twinops.*: an operator whose table has `<name>_grad` is differentiated by it.
The gradient operators are differentiable in turn. What has no formula is refused by PyTorch, never
silently without a gradient.

functional.py goes past this in eager mode (_eager.py), where Python's share of a call counts.
"""

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from twinops._native import operators
from twinops.torch import _plugin

ops = torch.ops.twinops


# ---- Second derivatives, by PyTorch's own differentiable operators ---------------------------------


def softmax_second(g, y, dy, axis, scale):
    """Of dx = scale * y * (dy - sum(y * dy)): the gradients with respect to y and dy, where g is the
    gradient with respect to dx."""
    g, dot = g.to(y.dtype), (y * dy).sum(axis, keepdim=True)
    along = (y * g).sum(axis, keepdim=True)
    return scale * (g * (dy - dot) - dy * along), scale * y * (g - along)


def log_softmax_second(g, y, dy, axis, scale):
    """Of dx = scale * (dy - exp(y) * sum(dy))."""
    g, p = g.to(y.dtype), y.exp()
    along = (p * g).sum(axis, keepdim=True)
    return -scale * g * p * dy.sum(axis, keepdim=True), scale * (g - along)


def mask_gradient(op, y, dy, x, mask, axis, masked_type=None):
    """The gradient with respect to an additive mask: that of x with scale 1, summed to its shape."""
    grad_op = getattr(ops, f"{op}_grad")
    dv = grad_op(y, dy, axis=axis, dx_type="same")
    return dv.sum_to_size(mask.shape).to(mask.dtype)


# ---- First derivatives, by name ---------------------------------------------------------------------


class _Call:
    """A call's arguments and results by name."""

    def __init__(self, op):
        self.schema = getattr(ops, op).default._schema
        self.tensors = [
            a.name for a in self.schema.arguments if isinstance(a.type, torch._C.Type)
            and "Tensor" in str(a.type)
        ]
        self.attributes = [a.name for a in self.schema.arguments if a.name not in self.tensors]
        self.results = [r.name for r in _plugin.results(op)]


def _sources(op, call):
    """Of each tensor that the gradient operator takes: "dy", or whose it is in the forward call."""
    found = {}
    for a in operators()[f"{op}_grad"].arguments:
        if a.is_output:
            continue
        if a.name in call.tensors:
            found[a.name] = a.name
        elif a.name in call.results:
            found[a.name] = a.name
        elif a.name in ("dy", f"d{call.results[0]}"):
            found[a.name] = "dy"
        elif a.name == "y":
            found[a.name] = call.results[0]
        elif a.is_required:
            return None
    return found


def _register(op):
    call, grad_call = _Call(op), _Call(f"{op}_grad")
    sources = _sources(op, call)
    if sources is None:
        return
    overload = getattr(ops, f"{op}_grad").default
    shared = [name for name in grad_call.attributes if name in call.attributes]
    sized = [r for r in _plugin.results(f"{op}_grad") if r.shape.startswith("last:")]
    produced = [r.name for r in _plugin.results(f"{op}_grad")]

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        given = dict(zip(call.tensors, inputs))
        outputs = output if isinstance(output, tuple) else (output,)
        results = dict(zip(call.results, outputs))
        for result in _plugin.results(op):
            if result.optional and keyword_only_inputs[result.type_attribute] == "":
                results[result.name] = None
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(t for name, t in zip(call.results[1:], outputs[1:]) if name != "probabilities")
        )
        ctx.attributes = {name: keyword_only_inputs[name] for name in shared}
        ctx.shapes = {n: (t.shape, t.dtype) for n, t in given.items() if t is not None}
        kept = {n: {**given, **results}[n] for n in sources.values() if n != "dy"}
        if given.get("mask") is not None and "mask" in _MASKED.get(op, ()):
            kept["out"] = outputs[0]
            kept["mask"] = given["mask"]
        ctx.kept = tuple(kept)
        ctx.save_for_backward(*kept.values())

    def backward(ctx, dy, dp=None, *_):
        kept = dict(zip(ctx.kept, ctx.saved_tensors))
        needs = dict(zip(call.tensors, ctx.needs_input_grad))
        attributes = dict(ctx.attributes)
        for result in sized:
            attributes[result.shape.removeprefix("last:")] = ctx.shapes[result.name[1:]][0][-1]
        rows = False
        for result in _plugin.results(f"{op}_grad"):
            wanted = result.name[1:]
            if result.shape == "row":  # a bias of the last dimension's shape, else it is dx itself
                rows = needs[wanted] and len(ctx.shapes[wanted][0]) < dy.dim()
                attributes[result.type_attribute] = "same" if rows else ""
            elif result.type_attribute:
                attributes[result.type_attribute] = _type_name(ctx.shapes[wanted][1])
        grads = {name: None for name in call.tensors}
        if dp is not None and needs["x"]:  # the second derivative comes by the probabilities too
            known = {n: attributes[n] for n in ("axis", "scale", "dx_type")}
            grads["x"] = ops.softmax_grad(kept["probabilities"], dp, **known)
        if dy is None:
            return tuple(grads.values())
        if any(needs.get(name[1:]) for name in produced):
            tensors = [dy if s == "dy" else kept[s] for s in sources.values()]
            made = overload(*tensors, **attributes)
            made = made if isinstance(made, tuple) else (made,)
            for name, gradient in zip(produced, made):
                if needs.get(name[1:]):
                    before = grads[name[1:]]
                    grads[name[1:]] = gradient if before is None else before + gradient
            if needs.get("bias") and not rows:
                grads["bias"] = made[0]
        if needs.get("residual"):
            grads["residual"] = dy
        if needs.get("mask") and "mask" in kept:
            y = kept["out"]
            grads["mask"] = mask_gradient(op, y, dy, None, kept["mask"], ctx.attributes["axis"])
        return tuple(grads.values())

    torch.library.register_autograd(f"twinops::{op}", backward, setup_context=setup_context)


# Whose additive mask has a gradient.
_MASKED = {"softmax": ("mask",), "log_softmax": ("mask",)}
_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}


def _type_name(dtype):
    return _NAMES.get(dtype, "same")


# ---- Gradients of gradients --------------------------------------------------------------------------


def _register_second(op, second):
    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.axis, ctx.scale = keyword_only_inputs["axis"], keyword_only_inputs["scale"]

    def backward(ctx, g):
        y, dy = ctx.saved_tensors
        return second(g, y, dy, ctx.axis, ctx.scale)

    torch.library.register_autograd(f"twinops::{op}_grad", backward, setup_context=setup_context)


def _register_linear(op, names):
    """dropout's gradient is linear, and its own transpose."""
    call = _Call(f"{op}_grad")

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs[1:])
        ctx.attributes = {n: v for n, v in keyword_only_inputs.items() if n != "dbias_type"}

    def backward(ctx, g, gbias=None):
        if gbias is not None and gbias.numel() and gbias.dtype == g.dtype:
            g = g + gbias
        return (ops.dropout_grad(g, *ctx.saved_tensors, **ctx.attributes),) + (None,) * (
            len(call.tensors) - 1
        )

    torch.library.register_autograd(f"twinops::{op}_grad", backward, setup_context=setup_context)


def _register_softmax_dropout_second():
    call = _Call("softmax_dropout_grad")

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.axis, ctx.scale = keyword_only_inputs["axis"], keyword_only_inputs["scale"]
        known = _Call("dropout_grad").attributes
        ctx.attributes = {n: v for n, v in keyword_only_inputs.items() if n in known}

    def backward(ctx, g):
        p, dy, *random = ctx.saved_tensors
        dp = ops.dropout_grad(dy, *random, **ctx.attributes)
        to_p, to_dp = softmax_second(g, p, dp, ctx.axis, ctx.scale)
        to_dy = ops.dropout_grad(to_dp, *random, **ctx.attributes)
        return (to_p, to_dy) + (None,) * (len(call.tensors) - 2)

    torch.library.register_autograd(
        "twinops::softmax_dropout_grad", backward, setup_context=setup_context
    )


def _register_projection_second():
    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs[1:])
        ctx.k = inputs[0].shape[-1]
        ctx.attributes = {n: v for n, v in keyword_only_inputs.items() if n != "columns"}

    def backward(ctx, g):
        return ops.random_projection(g, *ctx.saved_tensors, k=ctx.k, **ctx.attributes), None, None

    torch.library.register_autograd(
        "twinops::random_projection_grad", backward, setup_context=setup_context
    )


# ---- Operators that write into what they are given ---------------------------------------------------


def _tensors(value):
    if isinstance(value, Tensor):
        return [value]
    return [t for t in value if t is not None] if isinstance(value, (list, tuple)) else []


def _register_writing(name, overload):
    """What PyTorch's own in-place operators do: count versions, and refuse where a gradient would be
    lost."""
    written = [a.name for a in overload._schema.arguments if a.alias_info is not None]
    names = [a.name for a in overload._schema.arguments]

    def versions(keyset, *args, **kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        increment_version([t for n in written for t in _tensors(given.get(n))])
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return overload.redispatch(keyset & _after_versions, *args, **kwargs)

    def autograd(keyset, *args, **kwargs):
        if torch.is_grad_enabled():
            given = {**dict(zip(names, args)), **kwargs}
            for n, value in given.items():
                for t in _tensors(value):
                    if t.requires_grad:
                        raise RuntimeError(
                            f"twinops::{name}: {n} requires grad, and an operator that writes into "
                            "given tensors has no gradient: use torch.no_grad(), or detach it"
                        )
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    _library.impl(name, autograd, "Autograd", with_keyset=True)
    _library.impl(name, versions, "ADInplaceOrView", with_keyset=True)


_library = torch.library.Library("twinops", "FRAGMENT")
_after_versions = torch._C._after_ADInplaceOrView_keyset

for _op in operators():
    if _plugin.is_in_place(_op):
        _register_writing(f"{_op}_", getattr(ops, f"{_op}_").default)
        continue
    _register_writing(f"{_op}.out", getattr(ops, _op).out)
    if f"{_op}_grad" in operators():
        _register(_op)
_register_second("softmax", softmax_second)
_register_second("log_softmax", log_softmax_second)
_register_linear("dropout", ("dy",))
_register_linear("bias_dropout_residual", ("dy",))
_register_softmax_dropout_second()
_register_projection_second()
