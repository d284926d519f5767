"""What torch.compile has to know of the operators.

A compiled graph calls those without a gradient.
AOTAutograd, which torch.compile goes by, records the forward and the backward pass before anything runs,
so that what it has recorded needs no gradient of its own. An operator with a gradient is a detour by way
of Python at each call of the graph.

Inductor's CUDA graphs (mode="reduce-overhead") leave out whatever draws: a seed is a number of the CPU's,
and would be the same in each replay.
"""

import sys

import torch
from torch._guards import CompileContext
from torch._library.utils import handle_dispatch_mode
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from twinops.torch._plugin import functional_names, results

ops = torch.ops.twinops


def _compiles():
    """Whether torch.compile is at work: not make_fx and torch.export, which record what is differentiated
    or translated later, and not AOTInductor, whose package needs every argument."""
    inductor = sys.modules.get("torch._inductor.virtualized")
    ahead_of_time = inductor is not None and inductor.V.aot_compilation is True
    return CompileContext.try_get() is not None and not ahead_of_time


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

    @overload.py_impl(ProxyTorchDispatchMode)
    def record(mode, *args, **kwargs):
        recorded = without_gradient if _compiles() and not mode.pre_dispatch else overload
        return handle_dispatch_mode(mode, recorded, *args, **kwargs)


for _op in functional_names():
    _register(_op)
