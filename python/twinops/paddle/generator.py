"""Where in the random sequence the next call draws.

twinops draws from Philox with (seed, offset), equal on every device. The seed is Paddle's: what was
given to `paddle.seed`. The offset is counted here, in words, because Paddle's CPU generator has none;
every call moves it on by what it reserves. Under `fleet`'s RNG tracker Paddle switches between
seeds, so there is an offset for each seed.

A program (to_static, static graph) is made once and run many times: it reads seed and offset from
tensors and moves the offset on itself. The places of a program have the subsequences 1, 2, ..., and
eager calls have subsequence 0, so that no two of them share words.
"""

import contextlib
import functools
import os
import sys
import threading
import weakref

import paddle
from paddle.framework import core

_WORD = 1 << 64
# What a run of a program moves the offset on by: more words than a call can reserve. A constant,
# because calls of one run may read the offset before or after another of them moved it.
_PROGRAM_STEP = 1 << 36


def signed(value):
    """A 64-bit word as the int64 that Paddle's attributes and tensors hold."""
    value %= _WORD
    return value - _WORD if value >= _WORD // 2 else value


def _word(value):
    """A tensor of one word, where Paddle computes now: a copy, which every device can make."""
    return paddle.to_tensor([signed(value)], "int64")


_cpu_generator = core.default_cpu_generator()
_has_gpus = paddle.is_compiled_with_cuda()


def _paddle_seed():
    """The seed of the generator that Paddle uses now."""
    if _has_gpus:
        place = paddle.framework._current_expected_place()
        if isinstance(place, core.CUDAPlace):
            return core.default_cuda_generator(place.get_device_id()).initial_seed()
    return _cpu_generator.initial_seed()


_generators = weakref.WeakSet()  # all of this process: recomputation puts each back
_generators_lock = threading.Lock()


class Generator:
    """A position in a random sequence: a seed of 64 bits, and an offset in 32-bit words that each call
    moves on. `default_generator()` follows `paddle.seed`; one that is made with a seed of its own does
    not. It may be used from many threads."""

    def __init__(self, seed=None):
        self._follows = seed is None
        self._streams = {}  # Paddle's seed -> [seed, offset]
        if seed is not None:
            self._streams[None] = [seed % _WORD, 0]
        self._begin()

    def _begin(self):
        self._tensors = None
        self._lock = threading.Lock()
        self._places = weakref.WeakKeyDictionary()  # program -> places in it so far
        self._process = os.getpid()
        with _generators_lock:
            _generators.add(self)
        self._make_tensors()

    # A copy, and what is read from a pickle, begins where the original stood and goes on by itself.
    # The default generator is one in a process: a model that names it is copied without it.
    def __reduce_ex__(self, protocol):
        if self is default_generator():
            return default_generator, ()
        return super().__reduce_ex__(protocol)

    def __getstate__(self):
        return self._follows, self.get_state(), self._program_offset()

    def __setstate__(self, state):
        self._follows, streams, offset = state
        self._streams = {key: list(stream) for key, stream in streams.items()}
        self._begin()
        self._set_tensors(self._stream()[0], offset)

    def manual_seed(self, seed):
        """Begins the sequence of `seed` anew."""
        self._stream()[:] = [seed % _WORD, 0]
        self._set_tensors(seed, 0)
        return self

    def initial_seed(self):
        """The seed of the sequence, as an unsigned integer of 64 bits."""
        return self._stream()[0]

    def offset(self):
        """Words of the sequence that eager calls have taken."""
        return self._stream()[1]

    def reserve(self, words):
        """(seed, offset) for an eager call that takes `words` words; the next call draws behind."""
        with self._lock:
            stream = self._stream()
            seed, offset = stream
            stream[1] = (offset + words) % _WORD
        return signed(seed), signed(offset)

    def random_arguments(self, words):
        """What an operator that draws `words` words is to be given: (inputs, attributes)."""
        if paddle.in_dynamic_mode():
            if self._tensors is None:
                self._make_tensors()
            seed, offset = self.reserve(words)
            if self._process != os.getpid() and not self._follows:
                return {}, {"seed": seed, "offset": offset, "subsequence": _of_this_worker()}
            return {}, {"seed": seed, "offset": offset}
        place = {"subsequence": self._next_place()}
        if _saving.program:
            # A program in a file has no state of this process: Paddle's generator gives it a seed.
            words = paddle.randint(0, (1 << 31) - 1, [2], "int64")
            return {"seed_tensor": words[:1] * (1 << 16) * (1 << 15) + words[1:]}, place
        seed, offset = self._program_tensors()
        start = paddle.assign(offset)  # a copy: the backward pass may read it after the next move
        paddle.assign(start + _PROGRAM_STEP, offset)
        return {"seed_tensor": seed, "offset_tensor": start}, place

    def _next_place(self):
        """Counted in each program, so that what a program draws does not depend on others."""
        program = paddle.static.default_main_program()
        self._places[program] = self._places.get(program, 0) + 1
        return self._places[program]

    def state_dict(self):
        """For `paddle.save`, with model and optimizer."""
        seed, offset = self._stream()
        others = [[k, *v] for k, v in self._streams.items() if k is not None]
        program = self._program_offset()
        return {"seed": seed, "offset": offset, "streams": others, "program_offset": program}

    def set_state_dict(self, state):
        """Goes on where the generator stood that `state` is of."""
        missing = {"seed", "offset", "streams", "program_offset"} - set(state)
        if missing:
            raise ValueError(
                f"expected what state_dict() of a twinops generator gives; {sorted(missing)[0]!r} is "
                f"not in the dict, which has {sorted(map(str, state))}"
            )
        self._streams.update({key: list(stream) for key, *stream in state["streams"]})
        self._stream()[:] = [state["seed"], state["offset"]]
        self._set_tensors(state["seed"], state["program_offset"])

    def get_state(self):
        """A snapshot of what eager calls use: cheap, for recomputation."""
        with self._lock:
            return {key: tuple(stream) for key, stream in self._streams.items()}

    def set_state(self, state):
        """Goes back to where get_state() was called."""
        with self._lock:
            self._streams = {key: list(stream) for key, stream in state.items()}

    def _snapshot(self):
        """All of the state, without waiting for a device."""
        return self.get_state(), [t.clone() for t in self._tensors or ()]

    def _restore(self, snapshot):
        streams, tensors = snapshot
        self.set_state(streams)
        for tensor, value in zip(self._tensors or (), tensors):
            tensor.set_value(value)

    def _stream(self):
        key = _paddle_seed() if self._follows else None
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams.setdefault(key, [0 if key is None else key % _WORD, 0])
        return stream

    def _paddle_was_seeded(self, seed):
        if self._follows:
            self._streams[seed] = [seed % _WORD, 0]
            self._set_tensors(seed, 0)

    # The seed and the offset of programs. Tensors can be made in dygraph only.
    def _make_tensors(self):
        if self._tensors is None and paddle.in_dynamic_mode():
            self._tensors = _word(self._stream()[0]), _word(0)

    def _program_offset(self):
        return self._tensors[1].item() if self._tensors else 0

    def _program_state(self):
        return tuple(t.item() for t in self._tensors) if self._tensors else (0, 0)

    def _set_tensors(self, seed, offset):
        if self._tensors is not None and paddle.in_dynamic_mode():
            for tensor, value in zip(self._tensors, (seed, offset)):
                tensor.set_value(_word(value))

    def _program_tensors(self):
        if paddle.base.dygraph.base.in_to_static_mode():
            if self._tensors is None:
                raise RuntimeError(
                    "twinops' random state was made in static graph mode: import twinops.paddle "
                    "before paddle.enable_static(), or call tp.default_generator() after "
                    "paddle.disable_static()"
                )
            return self._tensors
        # A static graph of the user's: its state lives in the scope that it runs in.
        seed = paddle.full([1], signed(self._stream()[0]), "int64")
        offset = paddle.pir.core.create_persistable_value(
            dtype="int64",
            shape=[1],
            name=paddle.base.unique_name.generate("twinops_offset"),
            initializer=paddle.nn.initializer.Constant(0),
        )
        return seed, offset


class _Saving(threading.local):
    program = False  # whether paddle.jit.save is tracing in this thread


_saving = _Saving()


def _of_this_worker():
    """The subsequence of a DataLoader's worker process for generators that it has from its parent:
    another one for each worker and each epoch. 0 in other processes."""
    worker = paddle.io.get_worker_info()
    return 0 if worker is None else signed(worker.seed + worker.id)


@functools.cache
def default_generator():
    """The generator of all calls that name none. It follows `paddle.seed`."""
    return Generator()


def _follow_paddle_seed():
    """Wraps paddle.seed: a seed that is given again begins again."""
    from paddle.framework import random as module

    original = module.seed

    @functools.wraps(original)
    def seed(seed):
        generator = original(seed)
        default_generator()._paddle_was_seeded(int(seed))
        return generator

    for owner in (paddle, paddle.framework, module):
        if getattr(owner, "seed", None) is original:
            owner.seed = seed


def _follow_trackers():
    """fleet's RNG tracker seeds Paddle to keep the state that this gives, and puts Paddle back: so must
    what programs read be."""
    from paddle.distributed.fleet.layers.mpu.random import RNGStatesTracker

    original = RNGStatesTracker.add

    @functools.wraps(original)
    def add(self, *args, **kwargs):
        generator = default_generator()
        state = generator._program_state()
        try:
            return original(self, *args, **kwargs)
        finally:
            generator._set_tensors(*state)

    RNGStatesTracker.add = add


def _follow_recomputation():
    """fleet.utils.recompute keeps what paddle.get_rng_state gives, and the state of one that registers:
    here of all generators but the default one, because a layer may have one of its own."""
    import paddle.distributed.fleet.recompute.recompute  # a module, hidden by a function of its name

    module = sys.modules["paddle.distributed.fleet.recompute.recompute"]
    manager = module.custom_state_manager
    get, put = manager.custom_get_state_func, manager.custom_set_state_func

    def get_state(*args):
        with _generators_lock:
            generators = [g for g in _generators if g is not default_generator()]
        return [(g, g.get_state()) for g in generators], get(*args) if get else None

    def set_state(state):
        for generator, streams in state[0]:
            generator.set_state(streams)
        if put:
            put(state[1])

    manager.custom_get_state_func = get_state
    manager.custom_set_state_func = set_state


class _States(list):
    """What paddle.get_rng_state gives, with the state of the default generator."""

    twinops = None


def _follow_rng_state():
    """paddle.get_rng_state and paddle.set_rng_state carry the default generator's state, and so do those
    of CUDA's generators."""
    from paddle.framework import random as module

    def getting(original):
        @functools.wraps(original)
        def get(*args, **kwargs):
            states = _States(original(*args, **kwargs))
            states.twinops = default_generator()._snapshot()
            return states

        return get

    def setting(original):
        @functools.wraps(original)
        def set(state_list, *args, **kwargs):
            result = original(state_list, *args, **kwargs)
            if getattr(state_list, "twinops", None) is not None:
                default_generator()._restore(state_list.twinops)
            return result

        return set

    for which in ("rng_state", "cuda_rng_state"):
        for name, follow in (("get_" + which, getting), ("set_" + which, setting)):
            original = getattr(module, name)
            ours = follow(original)
            for owner in (paddle, paddle.framework, module):
                if getattr(owner, name, None) is original:
                    setattr(owner, name, ours)


@contextlib.contextmanager
def _traced_anew(functions):
    """Their programs of before are put aside: they read the state of this process."""
    caches = [(f, f._program_cache) for f in functions if hasattr(f, "_program_cache")]
    for function, cache in caches:
        function._program_cache = type(cache)()
    _saving.program = True
    try:
        yield
    finally:
        _saving.program = False
        for function, cache in caches:
            function._program_cache = cache


def _specification(function):
    """What paddle.jit.save takes if it is told nothing: the inputs that were traced last."""
    if not getattr(function, "_program_cache", None) or function._function_spec.input_spec:
        return None
    inputs = function.concrete_program.inputs
    return [
        paddle.static.InputSpec(value.shape, value.dtype) if hasattr(value, "dtype") else value
        for value in inputs
        if not isinstance(value, paddle.nn.Layer)
    ]


def _follow_save():
    """paddle.jit.save writes programs that draw without the state of this process."""
    original = paddle.jit.save

    @functools.wraps(original)
    def save(layer, path, input_spec=None, **configs):
        functions = [layer, *(getattr(layer, n, None) for n in ("forward", *vars(type(layer))))]
        if input_spec is None:
            input_spec = _specification(getattr(layer, "forward", layer))
        with _traced_anew(functions):
            return original(layer, path, input_spec, **configs)

    for owner in (paddle.jit, sys.modules["paddle.jit.api"]):
        if getattr(owner, "save", None) is original:
            owner.save = save


_follow_paddle_seed()
_follow_trackers()
_follow_recomputation()
_follow_rng_state()
_follow_save()
default_generator()
