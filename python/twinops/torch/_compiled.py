"""What torch.compile has to know of the operators.

A graph of inductor's calls those without a gradient. AOTAutograd, which inductor goes by, records the
forward and the backward pass before anything runs, so that what it has recorded needs no gradient of its
own. An operator with a gradient goes by way of Python at each call of the graph. Other backends, make_fx and
torch.export may differentiate what they have recorded: they record the operators that have gradients.

Inductor's CUDA graphs (mode="reduce-overhead") leave out whatever draws: a seed is a number of the CPU's,
and would be the same in each replay.
"""

import functools
import sys

import torch
from torch._guards import CompileContext
from torch._library.utils import handle_dispatch_mode
from torch.fx.experimental import proxy_tensor

from twinops.torch._plugin import functional_names, packed, results

ops = torch.ops.twinops
_library = torch.library.Library("twinops", "FRAGMENT")
_library.define("_traced_by_inductor() -> ()")  # never called: it marks inductor's table


def prepare():
    """Makes inductor's traces known. It is called where shapes are computed, which Dynamo does before a
    backend traces the graph."""
    if CompileContext.try_get() is not None:
        _mark_decompositions()


@functools.cache
def _mark_decompositions():
    from torch._inductor import decomposition

    decomposition.decompositions[ops._traced_by_inductor.default] = None
    decomposition.fast_random_decomps.cache_clear()


def _is_inductor():
    """Whether inductor traces; not AOTInductor, whose package needs every argument."""
    if ops._traced_by_inductor.default not in proxy_tensor.CURRENT_DECOMPOSITION_TABLE:
        return False
    inductor = sys.modules.get("torch._inductor.virtualized")
    return inductor is None or inductor.V.aot_compilation is not True


def _register(op):
    overload, without_gradient = getattr(ops, op).default, getattr(ops, f"_{op}").default

    # Where a graph has to keep the strides of eager mode, which is the default, it also names every
    # argument that is as the table has it. Sums over rows are taken of what has no gaps; for all others
    # any strides are right.
    sums = any(result.shape == "row" for result in results(op))
    tag = torch.Tag.needs_contiguous_strides if sums else torch.Tag.needs_fixed_stride_order
    without_gradient.tags.append(tag)
    if any(a.name == "seed_tensor" for a in overload._schema.arguments):
        for it in (overload, without_gradient):
            it.tags.append(torch.Tag.cudagraph_unsafe)

    sizes = [a.name for a in without_gradient._schema.arguments if "SymInt" in str(a.real_type)]

    @overload.py_impl(proxy_tensor.ProxyTorchDispatchMode)
    def record(mode, *args, **kwargs):
        if not _is_inductor():
            return handle_dispatch_mode(mode, overload, *args, **kwargs)
        given = {n: kwargs.pop(n) for n in sizes if n in kwargs}
        return handle_dispatch_mode(mode, without_gradient, *args, **given, **packed(kwargs))


for _op in functional_names():
    _register(_op)
