"""Gradients of torch.ops.twinops.*: an operator whose table has `<name>_grad` is differentiated by it.
The gradient operators are differentiable in turn. What has no formula is refused by PyTorch, never
silently without a gradient.

functional.py goes past this in eager mode (_eager.py), where Python's share of a call counts.
"""

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from twinops import _outputs
from twinops._native import operators
from twinops.torch import _deferred, _eager, _plugin

ops = torch.ops.twinops


# ---- Registration --------------------------------------------------------------------------------------

_transformed = {}  # operator -> what torch.func's transformations take


class _Call:
    """A call's arguments and results by name."""

    def __init__(self, op):
        self.schema = getattr(ops, op).default._schema
        self.tensors = [a.name for a in self.schema.arguments if "Tensor" in str(a.type)]
        self.defaults = {
            a.name: a.default_value for a in self.schema.arguments if a.has_default_value()
        }
        self.attributes = [a.name for a in self.schema.arguments if a.name not in self.tensors]
        self.results = [r.name for r in _plugin.results(op)]


def _register_autograd(op, backward, setup_context):
    """torch.library.register_autograd; and the same for torch.func, whose transformations do not take
    what that makes."""
    torch.library.register_autograd(f"twinops::{op}", backward, setup_context=setup_context)
    overload = getattr(ops, op).default

    class Transformed(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*tensors_and_attributes):
            *tensors, attributes = tensors_and_attributes
            return overload(*tensors, **attributes)

        @staticmethod
        def setup_context(ctx, inputs, output):
            *tensors, attributes = inputs
            setup_context(ctx, tuple(tensors), attributes, output)

        @staticmethod
        def backward(ctx, *gradients):
            return (*backward(ctx, *gradients), None)

    _transformed[op] = Transformed, _Call(op)


def call(op, *tensors, **attributes):
    """torch.ops.twinops.<op>, also where torch.func transforms it."""
    _eager.refuse_duals(*tensors)
    if op in _transformed and torch._C._are_functorch_transforms_active():
        return _deferred.call_transformed(op, *tensors, **attributes)
    return getattr(ops, op)(*tensors, **attributes)


@_deferred.in_graph  # of autograd.Function and torch.func together the compiler knows little
def call_transformed(op, *tensors, **attributes):
    function, known = _transformed[op]
    filled = {n: attributes.get(n, known.defaults.get(n)) for n in known.attributes}
    rest = len(known.tensors) - len(tensors)
    return function.apply(*tensors, *[None] * rest, filled)


# ---- Second derivatives, by PyTorch's own differentiable operators ---------------------------------


# The attributes that a second derivative reads.
_OF_SECOND = ("axis", "scale", "causal", "causal_offset")


def masked_out(y, mask, lengths, bias, axis, causal, causal_offset):
    """Which elements of y are masked out, in a shape that broadcasts to y's; None if none may be."""
    out = []
    for m in (mask, bias):
        if m is not None:
            out.append(m == -torch.inf if m.is_floating_point() else m != 0)
    if lengths is not None:
        index = torch.arange(y.shape[axis], device=y.device)
        index = index.reshape([-1] + [1] * (-1 - (axis if axis < 0 else axis - y.dim())))
        out.append(index >= lengths.reshape(lengths.shape + (1,) * (y.dim() - lengths.dim())))
    if causal:
        rows, columns = (torch.arange(n, device=y.device) for n in y.shape[-2:])
        out.append(columns > rows[:, None] + causal_offset)
    for more in out[1:]:
        out[0] = out[0] | more
    return out[0] if out else None


def _filled(out, value, *tensors):
    return [t if out is None else t.masked_fill(out, value) for t in tensors]


def softmax_second(g, y, dy, mask, lengths, bias, axis, scale, *causal):
    """Of dx = scale * y * (dy - sum(y * dy)): the gradients with respect to y and dy, where g is the
    gradient with respect to dx."""
    out = masked_out(y, mask, lengths, bias, axis, *causal)
    g, y, dy = _filled(out, 0, g.to(y.dtype), y, dy)
    dot, along = (y * dy).sum(axis, keepdim=True), (y * g).sum(axis, keepdim=True)
    return _filled(out, 0, scale * (g * (dy - dot) - dy * along), scale * y * (g - along))


def log_softmax_second(g, y, dy, mask, lengths, bias, axis, scale, *causal):
    """Of dx = scale * (dy - exp(y) * sum(dy))."""
    out = masked_out(y, mask, lengths, bias, axis, *causal)
    g, p, dy = _filled(out, 0, g.to(y.dtype), y.exp(), dy)
    along = (p * g).sum(axis, keepdim=True)
    return _filled(out, 0, -scale * g * p * dy.sum(axis, keepdim=True), scale * (g - along))


def of_values(g, gmask, gbias, y, scale):
    """The gradient with respect to that of softmax's values, scale * x + mask + bias, of which dx, dmask
    and dbias are made."""
    parts = [] if g is None else [g.to(y.dtype) * scale]
    parts += [m.to(y.dtype).expand(y.shape) for m in (gmask, gbias) if m is not None]
    for more in parts[1:]:
        parts[0] = parts[0] + more
    return parts[0] if parts else None


# ---- First derivatives, by name ---------------------------------------------------------------------


def _sources(op, known):
    """Of each tensor that the gradient operator takes: "dy", or whose it is in the forward known."""
    found = {}
    for a in operators()[f"{op}_grad"].arguments:
        if a.is_output:
            continue
        if a.name in known.tensors:
            found[a.name] = a.name
        elif a.name in known.results:
            found[a.name] = a.name
        elif a.name in ("dy", f"d{known.results[0]}"):
            found[a.name] = "dy"
        elif a.name == "y":
            found[a.name] = known.results[0]
        elif a.is_required:
            return None
    return found


def _register(op):
    known, grad_call = _Call(op), _Call(f"{op}_grad")
    sources = _sources(op, known)
    if sources is None:
        return
    shared = [name for name in grad_call.attributes if name in known.attributes]
    sized = [r for r in _plugin.results(f"{op}_grad") if r.shape.startswith("last:")]
    produced = [r.name for r in _plugin.results(f"{op}_grad")]

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        given = dict(zip(known.tensors, inputs))
        outputs = output if isinstance(output, tuple) else (output,)
        results = dict(zip(known.results, outputs))
        for result in _plugin.results(op):
            if result.optional and keyword_only_inputs[result.type_attribute] == "":
                results[result.name] = None
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(t for name, t in zip(known.results[1:], outputs[1:]) if name != "probabilities")
        )
        ctx.attributes = {name: keyword_only_inputs[name] for name in shared}
        ctx.shapes = {n: (t.shape, t.dtype) for n, t in given.items() if t is not None}
        kept = {n: {**given, **results}[n] for n in sources.values() if n != "dy"}
        ctx.kept = tuple(kept)
        ctx.save_for_backward(*kept.values())

    def backward(ctx, dy, dp=None, *_):
        kept = dict(zip(ctx.kept, ctx.saved_tensors))
        needs = dict(zip(known.tensors, ctx.needs_input_grad))
        attributes = dict(ctx.attributes)
        for result in sized:
            attributes[result.shape.removeprefix("last:")] = ctx.shapes[result.name[1:]][0][-1]
        rows = False
        for result in _plugin.results(f"{op}_grad"):
            wanted = result.name[1:]
            if result.shape == "dense":  # of the mask, where that has a gradient
                attributes[result.type_attribute] = "same" if needs.get(wanted) else ""
            elif result.shape == "row":  # a bias of the last dimension's shape, else it is dx itself
                rows = needs[wanted] and len(ctx.shapes[wanted][0]) < len(ctx.shapes["x"][0])
                attributes[result.type_attribute] = "same" if rows else ""
                if rows and dy is not None:
                    dy = dy.contiguous()  # the sums are taken of a dx without gaps
            elif result.type_attribute:
                attributes[result.type_attribute] = _type_name(ctx.shapes[wanted][1])
        if not _outputs.needs_masks(op, needs.get("mask") or needs.get("bias")):
            kept.update(dict.fromkeys(_outputs.MASKS))
            attributes.update(causal=False, causal_offset=0)
        grads = {name: None for name in known.tensors}
        if dp is not None and needs.get("x"):  # the second derivative comes by the probabilities too
            own = {n: attributes[n] for n in (*_OF_SECOND, "dx_type", "dmask_type", "dbias_type")}
            masks = kept["mask"], kept["lengths"], kept["bias"]
            made = call("softmax_grad", kept["probabilities"], dp, *masks, **own)
            grads.update({n: g for n, g in zip(("x", "mask", "bias"), made) if needs.get(n)})
        if dy is None:
            return tuple(grads.values())
        if any(needs.get(name[1:]) for name in produced):
            tensors = [dy if s == "dy" else kept[s] for s in sources.values()]
            made = call(f"{op}_grad", *tensors, **attributes)
            made = made if isinstance(made, tuple) else (made,)
            for name, gradient in zip(produced, made):
                if needs.get(name[1:]):
                    before = grads[name[1:]]
                    grads[name[1:]] = gradient if before is None else before + gradient
            if needs.get("bias") and grads["bias"] is None:  # of x's shape
                grads["bias"] = made[0]
        if needs.get("residual"):
            grads["residual"] = dy
        return tuple(grads.values())

    _register_autograd(op, backward, setup_context)


_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}


def _type_name(dtype):
    return _NAMES.get(dtype, "same")


# ---- Gradients of gradients --------------------------------------------------------------------------


def _register_second(op, second):
    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.attributes = [keyword_only_inputs[n] for n in _OF_SECOND]
        ctx.set_materialize_grads(False)

    def backward(ctx, g, gmask, gbias):
        axis, scale, *causal = ctx.attributes
        g = of_values(g, gmask, gbias, ctx.saved_tensors[0], scale)
        if g is None:
            return (None,) * 5
        return (*second(g, *ctx.saved_tensors, axis, 1.0, *causal), None, None, None)

    _register_autograd(f"{op}_grad", backward, setup_context)


def _register_linear(op, names):
    """dropout's gradient is linear, and its own transpose."""
    known = _Call(f"{op}_grad")

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs[1:])
        ctx.attributes = {n: v for n, v in keyword_only_inputs.items() if n != "dbias_type"}

    def backward(ctx, g, gbias=None):
        if gbias is not None and gbias.numel() and gbias.dtype == g.dtype:
            g = g + gbias
        return (call("dropout_grad", g, *ctx.saved_tensors, **ctx.attributes),) + (None,) * (
            len(known.tensors) - 1
        )

    _register_autograd(f"{op}_grad", backward, setup_context)


def _register_softmax_dropout_second():
    known = _Call("softmax_dropout_grad")

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.softmax = [keyword_only_inputs[n] for n in _OF_SECOND]
        random = _Call("dropout_grad").attributes
        ctx.attributes = {n: v for n, v in keyword_only_inputs.items() if n in random}
        ctx.set_materialize_grads(False)

    def backward(ctx, g, gmask, gbias):
        p, dy, kept, mask, lengths, *random, bias = ctx.saved_tensors
        axis, scale, *causal = ctx.softmax
        g = of_values(g, gmask, gbias, p, scale)
        if g is None:
            return (None,) * len(known.tensors)
        random = kept, *random
        dp = call("dropout_grad", dy, *random, **ctx.attributes)
        to_p, to_dp = softmax_second(g, p, dp, mask, lengths, bias, axis, 1.0, *causal)
        to_dy = call("dropout_grad", to_dp, *random, **ctx.attributes)
        return (to_p, to_dy) + (None,) * (len(known.tensors) - 2)

    _register_autograd("softmax_dropout_grad", backward, setup_context)


def _register_projection_second():
    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*inputs[1:])
        ctx.k = inputs[0].shape[-1]
        ctx.attributes = {n: v for n, v in keyword_only_inputs.items() if n != "columns"}

    def backward(ctx, g):
        return call("random_projection", g, *ctx.saved_tensors, k=ctx.k, **ctx.attributes), None, None

    _register_autograd("random_projection_grad", backward, setup_context)


# ---- Operators that write into what they are given ---------------------------------------------------


def _tensors(value):
    if isinstance(value, Tensor):
        return [value]
    return [t for t in value if t is not None] if isinstance(value, (list, tuple)) else []


def _resolved(value):
    if isinstance(value, Tensor):
        return value.resolve_neg()
    return [_resolved(t) for t in value] if isinstance(value, (list, tuple)) else value


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

    def negated(*args, **kwargs):
        given = {**dict(zip(names, args)), **kwargs}
        plain = {n: _resolved(value) for n, value in given.items()}
        overload(**plain)
        for n in written:
            for t, made in zip(_tensors(given.get(n)), _tensors(plain.get(n))):
                if made is not t:
                    t.copy_(made)

    _library.impl(name, autograd, "Autograd", with_keyset=True)
    _library.impl(name, versions, "ADInplaceOrView", with_keyset=True)
    # PyTorch's own way with a negated view, such as z.conj().imag, takes what is written from the results,
    # and reads past the stack where there are none.
    _library.impl(name, negated, "Negative")


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
