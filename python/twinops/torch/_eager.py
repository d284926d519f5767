"""Eager mode's short way to the operators: one autograd.Function a family, around the operator itself.
PyTorch's dispatcher would call back into Python for each call otherwise (_autograd.py), which costs
more than the call. Both give the same bits and the same gradients; a test compares them.

An operator has a second one without a gradient, RAW, for that: PyTorch's function behind the
OpOverload, whose own call is Python. It takes most attributes as one text (_plugin.packed), because PyTorch
asks for each argument of a schema at each call. Under create_graph the backward passes go by
torch.ops.twinops, which are differentiable in turn.
"""

import torch
from torch.autograd import Function, forward_ad
from torch.autograd.graph import increment_version

from twinops import _outputs
from twinops.torch._random import is_traced
from twinops.torch._plugin import functional_names, packed

ops = torch.ops.twinops
_below_autograd = torch._C._AutoDispatchBelowAutograd
_is_compiling = torch.compiler.is_compiling
# By name, the operators without a gradient.
RAW = {op: getattr(ops, f"_{op}").default._op for op in functional_names()}
_dropout = RAW["dropout"]
_GRADIENT = {"softmax": "softmax_grad", "log_softmax": "log_softmax_grad"}
_TENSORS = {torch.Tensor, torch.nn.Parameter}


def is_plain(*tensors):
    """Whether these tensors, or None, may take the short way."""
    refuse_duals(*tensors)
    if is_traced():
        return False
    for t in tensors:
        if t is not None and type(t) not in _TENSORS:
            return False
    return True


def is_simple(x):
    """is_plain of one tensor, for calls whose other arguments are the defaults; False is no refusal."""
    return type(x) in _TENSORS and forward_ad._current_level < 0 and not is_traced()


def refuse_duals(*tensors):
    """PyTorch would drop the tangents of a custom operator's inputs without a word."""
    if forward_ad._current_level < 0:
        return
    for t in tensors:
        if t is not None and forward_ad.unpack_dual(t).tangent is not None:
            raise NotImplementedError(
                "twinops' operators have no forward-mode gradients: use reverse mode, or PyTorch's own "
                "function under torch.autograd.forward_ad"
            )


def wants_gradient(*tensors):
    if torch.is_grad_enabled():
        for t in tensors:
            if t is not None and t.requires_grad:
                return True
    return False


class Softmax(Function):
    """softmax and log_softmax: `op` is the name."""

    @staticmethod
    def forward(ctx, x, mask, lengths, bias, op, attributes):
        y = RAW[op](x, mask, lengths, bias, **packed(attributes))
        ctx.op, ctx.attributes, ctx.dtype = op, attributes, x.dtype
        _, of_mask, _, of_bias, *_ = ctx.needs_input_grad
        if not _outputs.needs_masks(op, of_mask or of_bias):
            ctx.attributes = {n: v for n, v in attributes.items() if n not in _outputs.CAUSAL}
            mask = lengths = bias = None
        ctx.save_for_backward(y, mask, lengths, bias)
        return y

    @staticmethod
    def backward(ctx, dy):
        y, mask, lengths, bias = ctx.saved_tensors
        known = {n: v for n, v in ctx.attributes.items() if n != "out_type"}
        if y.dtype != ctx.dtype:
            known["dx_type"] = str(ctx.dtype).removeprefix("torch.")
        to_x, to_mask, _, to_bias, *_ = ctx.needs_input_grad
        if to_mask:
            known["dmask_type"] = "same"
        if to_bias:
            known["dbias_type"] = "same"
        dx, dmask, dbias = _gradient(_GRADIENT[ctx.op], y, dy, mask, lengths, bias, **known)
        return (
            dx if to_x else None,
            dmask if to_mask else None,
            None,
            dbias if to_bias else None,
            None,
            None,
        )


class SimpleSoftmax(Function):
    """Softmax without masks, scale and other types."""

    @staticmethod
    def forward(ctx, x, op, axis):
        y = RAW[op](x) if axis == -1 else RAW[op](x, attributes=f"axis={axis}")
        ctx.op, ctx.axis = op, axis
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        if ctx.axis == -1:
            return _gradient(_GRADIENT[ctx.op], y, dy)[0], None, None
        return _gradient(_GRADIENT[ctx.op], y, dy, axis=ctx.axis)[0], None, None


class SimpleDropout(Function):
    """Dropout by a seed of the host's, whose mask is kept on a CPU and drawn again elsewhere."""

    @staticmethod
    def forward(ctx, x, p, seed):
        ctx.p, ctx.seed = p, seed
        if not x.is_cpu:
            return _dropout(x, p=p, attributes=f"seed={seed}")[0]
        y, mask = _dropout(x, p=p, attributes=f"seed={seed};mask_type=uint32")
        ctx.save_for_backward(mask)
        return y

    @staticmethod
    def backward(ctx, dy):
        dx = _gradient("dropout_grad", dy, *ctx.saved_tensors, p=ctx.p, seed=ctx.seed)
        return dx, None, None


class Dropout(Function):
    @staticmethod
    def forward(ctx, x, seed_tensor, attributes, mask_type):
        y, mask = _dropout(x, seed_tensor, **packed({**attributes, "mask_type": mask_type}))
        ctx.attributes = attributes
        ctx.save_for_backward(mask if mask_type else None, seed_tensor)
        return y

    @staticmethod
    def backward(ctx, dy):
        mask, seed_tensor = ctx.saved_tensors
        dx = _gradient("dropout_grad", dy, mask, seed_tensor, **ctx.attributes)
        return dx, None, None, None


def _drop_in_place(x, seed_tensor, attributes):
    with _below_autograd(), torch._C._AutoDispatchBelowADInplaceOrView():
        ops.dropout.out(x, seed_tensor, y=x, **attributes)


class DropoutInPlace(Function):
    @staticmethod
    def forward(ctx, x, seed_tensor, attributes):
        _drop_in_place(x, seed_tensor, attributes)
        ctx.mark_dirty(x)
        ctx.attributes = attributes
        ctx.save_for_backward(seed_tensor)
        return x

    @staticmethod
    def backward(ctx, dy):
        (seed_tensor,) = ctx.saved_tensors
        dx = _gradient("dropout_grad", dy, None, seed_tensor, **ctx.attributes)
        return dx, None, None


class BiasDropoutResidual(Function):
    @staticmethod
    def forward(ctx, x, bias, residual, seed_tensor, attributes, mask_type):
        given = packed({**attributes, "mask_type": mask_type})
        y, mask = RAW["bias_dropout_residual"](x, bias, residual, seed_tensor, **given)
        ctx.attributes = attributes
        ctx.row = bias is not None and bias.dim() < x.dim()
        ctx.save_for_backward(mask if mask_type else None, seed_tensor)
        return y

    @staticmethod
    def backward(ctx, dy):
        mask, seed_tensor = ctx.saved_tensors
        to_x, to_bias, to_residual, *_ = ctx.needs_input_grad
        dx = dbias = None
        if to_x or to_bias:
            if to_bias and ctx.row:
                dy = dy.contiguous()  # the sums are taken of a dx without gaps
            dx, dbias = _gradient(
                "bias_dropout_residual_grad",
                dy,
                mask,
                seed_tensor,
                dbias_type="same" if to_bias and ctx.row else "",
                **ctx.attributes,
            )
        if to_bias and not ctx.row:
            dbias = dx
        return (
            dx if to_x else None,
            dbias if to_bias else None,
            dy if to_residual else None,
            None,
            None,
            None,
        )


class SoftmaxDropout(Function):
    """Gives (y, softmax(x)): the second derivative comes by the probabilities too."""

    @staticmethod
    def forward(ctx, x, mask, lengths, seed_tensor, bias, softmax, dropout, types):
        given = packed({**softmax, **dropout, **types})
        y, p, kept = RAW["softmax_dropout"](x, mask, lengths, seed_tensor, None, None, bias, **given)
        ctx.softmax = {n: v for n, v in softmax.items() if n not in _outputs.CAUSAL}
        if p.dtype != x.dtype:
            ctx.softmax["dx_type"] = str(x.dtype).removeprefix("torch.")
        ctx.dropout = dropout
        ctx.set_materialize_grads(False)
        kept = kept if "dropout_mask_type" in types else None
        ctx.save_for_backward(p, kept, seed_tensor)
        return y, p

    @staticmethod
    def backward(ctx, dy, dp):
        p, kept, seed_tensor = ctx.saved_tensors
        dx = None
        if dy is not None:
            dx = _gradient(
                "softmax_dropout_grad",
                p,
                dy,
                kept,
                None,
                None,
                seed_tensor,
                **ctx.softmax,
                **ctx.dropout,
            )[0]
        if dp is not None:
            more = _gradient("softmax_grad", p, dp, **ctx.softmax)[0]
            dx = more if dx is None else dx + more
        return dx, *(None,) * 7


def dropout_in_place(x, seed_tensor, attributes):
    """x itself, as PyTorch's functions that work in place return."""
    if wants_gradient(x):
        if x._is_view():  # some of which PyTorch refuses to write into: copy_ asks before it writes
            return x.copy_(apply_dropout(x, seed_tensor, attributes, ""))
        _refuse_leaf(x)
        return _apply_dropout_in_place(x, seed_tensor, attributes)
    if x.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.")
    increment_version(x)
    _drop_in_place(x, seed_tensor, attributes)
    return x


def _refuse_leaf(x):
    """PyTorch asks a Function's inputs when they have been written."""
    if x.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _gradient(op, *args, **kwargs):
    if torch.is_grad_enabled() or _is_compiling():  # create_graph; compiled autograd, which knows operators only
        return getattr(ops, op)(*args, **kwargs)
    return RAW[op](*args, **packed(kwargs))


def _applied(function):
    """function.apply without its questions about torch.func, which is_plain has answered."""
    return super(Function, function).apply


apply_simple_softmax = _applied(SimpleSoftmax)
apply_simple_dropout = _applied(SimpleDropout)
apply_softmax = _applied(Softmax)
apply_dropout = _applied(Dropout)
_apply_dropout_in_place = _applied(DropoutInPlace)
apply_bias_dropout_residual = _applied(BiasDropoutResidual)
apply_softmax_dropout = _applied(SoftmaxDropout)
