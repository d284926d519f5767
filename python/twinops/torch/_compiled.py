"""What torch.compile has to know of the operators.

A graph of inductor's calls those without a gradient. AOTAutograd, which inductor goes by, records the
forward and the backward pass before anything runs, so that what it has recorded needs no gradient of its
own. An operator with a gradient goes by way of Python at each call of the graph. Other backends, make_fx and
torch.export may differentiate what they have recorded: they record the operators that have gradients.

A seed is drawn on the CPU, and would be the same in each replay of a CUDA graph of inductor's
(mode="reduce-overhead"). So inductor's graphs draw one seed behind the other instead of each behind what it
is for, which lets inductor put all draws before the rest; and where it makes CUDA graphs, a seed is copied
to the device, from where the graph reads it.
"""

import functools
import sys
import weakref

import torch
from torch._guards import CompileContext
from torch._library.utils import handle_dispatch_mode
from torch.fx.experimental import proxy_tensor

from twinops.torch import _random  # noqa: F401, which defines draw_seed
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

    decomposition.decompositions[ops._traced_by_inductor.default] = lambda: None
    decomposition.fast_random_decomps.cache_clear()


def _is_inductor(mode):
    """Whether inductor traces; not AOTInductor, whose package needs every argument. Where a trace has its
    table differs between versions of PyTorch, so PyTorch is asked as it asks itself."""
    mark = ops._traced_by_inductor.default
    if proxy_tensor.maybe_handle_decomp(mode, mark, (), {}) is NotImplemented:
        return False
    inductor = sys.modules.get("torch._inductor.virtualized")
    return inductor is None or inductor.V.aot_compilation is not True


def _makes_cuda_graphs():
    return sys.modules["torch._inductor.config"].triton.cudagraphs


class _Trace:
    """What inductor's trace of a graph has so far."""

    _of_tracers = weakref.WeakKeyDictionary()

    def __init__(self):
        self.drawn = None  # the last seed
        self.on_device = []  # (seed, index of a CUDA device, the seed there)

    @classmethod
    def of(cls, mode):
        return cls._of_tracers.setdefault(mode.tracer, cls())

    def draw(self, mode):
        place = self.drawn
        if place is None:
            place = handle_dispatch_mode(mode, ops.first_place.default)
        self.drawn = handle_dispatch_mode(mode, ops.draw_seed.default, place)
        return self.drawn

    def seed_on(self, mode, seed, device):
        for known, index, there in self.on_device:
            if known is seed and index == device:
                return there
        there = handle_dispatch_mode(mode, ops.seed_on.default, seed, device)
        self.on_device.append((seed, device, there))
        return there


@ops.draw_seed.default.py_impl(proxy_tensor.ProxyTorchDispatchMode)
def _record_draw(mode, place):
    if _is_inductor(mode):
        return _Trace.of(mode).draw(mode)
    return handle_dispatch_mode(mode, ops.draw_seed.default, place)


def _register(op):
    overload, without_gradient = getattr(ops, op).default, getattr(ops, f"_{op}").default

    # Where a graph has to keep the strides of eager mode, which is the default, it also names every
    # argument that is as the table has it. Sums over rows are taken of what has no gaps; for all others
    # any strides are right.
    sums = any(result.shape == "row" for result in results(op))
    tag = torch.Tag.needs_contiguous_strides if sums else torch.Tag.needs_fixed_stride_order
    without_gradient.tags.append(tag)
    numbers = [a.name.endswith("_tensor") for a in overload._schema.arguments]  # of the CPU's or x's device
    sizes = [a.name for a in without_gradient._schema.arguments if "SymInt" in str(a.real_type)]

    @overload.py_impl(proxy_tensor.ProxyTorchDispatchMode)
    def record(mode, *args, **kwargs):
        if not _is_inductor(mode):
            return handle_dispatch_mode(mode, overload, *args, **kwargs)
        if args[0].is_cuda and _makes_cuda_graphs():
            trace, device = _Trace.of(mode), args[0].device.index
            args = [
                trace.seed_on(mode, a, device) if number and a is not None and a.is_cpu else a
                for a, number in zip(args, numbers)
            ]
        given = {n: kwargs.pop(n) for n in sizes if n in kwargs}
        return handle_dispatch_mode(mode, without_gradient, *args, **given, **packed(kwargs))


for _op in functional_names():
    _register(_op)
