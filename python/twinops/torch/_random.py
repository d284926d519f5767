"""Where the next call draws.

Every call of a dropout takes a seed of its own, a number of 63 bits, from PyTorch's CPU generator,
whatever the device of the tensor: so the mask is the same on every device, and everything that keeps
and puts back PyTorch's random state (manual_seed, fork_rng, checkpoint, DataLoader's workers) does so
for twinops. The seed is a number of the host's: drawing it moves nothing to or from a GPU.

- A generator that is given is drawn from instead. One of a GPU gives a seed there.
- While a CUDA graph is captured, seeds come from the GPU's generator: each replay draws anew.
- In a compiled graph the operator twinops::draw_seed draws when the graph runs: the same seeds, and so
  the same masks, as in eager mode.
- A graph that is compiled breaks at a generator that is given, as at PyTorch's own functions.
- Under torch.func.vmap the argument `randomness` decides, as for PyTorch's own dropout.
"""

import functools
import threading

import torch

from twinops.torch import _deferred

_HIGHEST = 2**63 - 1
_local = threading.local()
# By names of this module: each call of a dropout or a softmax asks.
_is_compiling = torch.compiler.is_compiling
_is_transformed = torch._C._are_functorch_transforms_active
_modes = torch._C._len_torch_dispatch_stack
_jit_trace = torch._C._get_tracing_state


def _cell():
    cell = getattr(_local, "cell", None)
    if cell is None:
        with torch.inference_mode(False):
            cell = _local.cell = torch.empty((), dtype=torch.int64, device="cpu")
    return cell


def draw_number():
    """A seed from PyTorch's default CPU generator."""
    return _cell().random_().item()


def is_traced():
    """Whether this call is recorded, transformed or observed instead of only run: then all it does
    has to be PyTorch operators."""
    return _is_compiling() or _is_transformed() or _modes() > 0 or _jit_trace() is not None


def draw(x, generator=None):
    """(seed, None) or (0, seed tensor) for a call that drops elements of x."""
    if _is_transformed():
        return 0, _draw_transformed(generator)
    if x.is_meta:
        return 0, None
    if generator is not None:
        if _is_compiling():
            return 0, _deferred.draw_from(generator)
        cell = draw_from(generator)
        return (cell.item(), None) if generator.device.type == "cpu" else (0, cell)
    if _jit_trace() is not None:  # which makes one of two draws by an operator of ours
        return 0, torch.empty((), dtype=torch.int64).random_()
    if is_traced():
        return 0, torch.ops.twinops.draw_seed(torch.ops.twinops.place_of(x))
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return 0, torch.empty((), dtype=torch.int64, device=x.device).random_()
    return draw_number(), None


@_deferred.breaks_graph(
    "a torch.Generator is no part of a compiled or exported graph, as for PyTorch's own functions: "
    "the graph breaks here. Without generator= there is no break: the seed comes from PyTorch's default "
    "generator when the graph runs (torch.manual_seed)"
)
def draw_from(generator):
    if torch.compiler.is_exporting():
        raise RuntimeError("twinops: generator=: a torch.Generator is no part of an exported program: leave it out")
    return torch.empty((), dtype=torch.int64, device=generator.device).random_(generator=generator)


def _draw_transformed(generator):
    """random_'s number under torch.func: out of place, because vmap draws for each of its batch only so.
    (randint has no upper end that takes all numbers of 63 bits.)"""
    device = "cpu" if generator is None else generator.device
    words = torch.randint(-_HIGHEST - 1, _HIGHEST, (), generator=generator, device=device)
    return words & _HIGHEST


_library = torch.library.Library("twinops", "FRAGMENT")
# A draw is no function of `place`, which orders it in its graph: behind what it is for, or behind the draw
# before it. The place is on the CPU, because a graph that is computed again (checkpoint) puts back the
# random state of the device that a random operator's inputs are on. seed_on copies a seed to a CUDA device.
# None of them may be a part of a CUDA graph of inductor's. hosts/torch/draws.cpp has what they do.
_UNSAFE = torch.Tag.cudagraph_unsafe
_library.define("first_place() -> Tensor", tags=(_UNSAFE,))
_library.define("place_of(Tensor x) -> Tensor", tags=(_UNSAFE,))
_library.define("draw_seed(Tensor place) -> Tensor", tags=(_UNSAFE, torch.Tag.nondeterministic_seeded))
_library.define("seed_on(Tensor seed, int device) -> Tensor", tags=(_UNSAFE,))
torch.library.register_fake("twinops::first_place", lambda: _fake_number())
torch.library.register_fake("twinops::place_of", lambda _: _fake_number())
torch.library.register_fake("twinops::draw_seed", lambda _: _fake_draw())
torch.library.register_fake("twinops::seed_on", lambda seed, index: seed.to(torch.device("cuda", index)))


def _fake_number():
    return torch.empty((), dtype=torch.int64, device="cpu")


def _fake_draw():
    _keep_draws_apart()
    return _fake_number()


@functools.cache
def _keep_draws_apart():
    """Tells AOTAutograd that two draws are not one because they look alike. Where nothing is traced its
    modules, whose import takes a second, are not needed."""
    from torch._functorch import compile_utils

    compile_utils.rand_ops.append(torch.ops.twinops.draw_seed)
