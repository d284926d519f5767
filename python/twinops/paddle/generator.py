"""Where in the random sequence the next call draws.

twinops draws from Philox with (seed, offset), equal on every device. The seed is Paddle's: what was
given to `paddle.seed`. The offset is counted here, in words, because Paddle's CPU generator has none;
every call moves it on by what it reserves. Under `fleet`'s RNG tracker Paddle switches between
seeds, so there is an offset for each seed.

A program (to_static, static graph) is made once and run many times: it reads seed and offset from
tensors and moves the offset on itself. Each place in a program has a subsequence of its own, and
eager calls have subsequence 0, so that no two of them share words.
"""

import functools
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


def _paddle_seed():
    """The seed of the generator that Paddle uses now."""
    place = paddle.framework._current_expected_place()
    if isinstance(place, core.CUDAPlace):
        return core.default_cuda_generator(place.get_device_id()).initial_seed()
    return core.default_cpu_generator().initial_seed()


_generators = weakref.WeakSet()  # all of this process: recomputation puts each back
_generators_lock = threading.Lock()


class Generator:
    """A position in a random sequence: a seed of 64 bits, and an offset in 32-bit words that each call
    moves on. `default_generator()` follows `paddle.seed`; one that is made with a seed of its own does
    not. It may be used from many threads."""

    def __init__(self, seed=None):
        self._follows = seed is None
        self._streams = {}  # Paddle's seed -> [seed, offset]
        self._places = 0  # places in programs so far
        if seed is not None:
            self._streams[None] = [seed % _WORD, 0]
        self._begin()

    def _begin(self):
        self._tensors = None
        self._lock = threading.Lock()
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
        return self._follows, self._places, self.get_state(), self._program_offset()

    def __setstate__(self, state):
        self._follows, self._places, streams, offset = state
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
            self._make_tensors()
            seed, offset = self.reserve(words)
            return {}, {"seed": seed, "offset": offset}
        self._places += 1
        seed, offset = self._program_tensors()
        start = paddle.assign(offset)  # a copy: the backward pass may read it after the next move
        paddle.assign(start + _PROGRAM_STEP, offset)
        return {"seed_tensor": seed, "offset_tensor": start}, {"subsequence": self._places}

    def state_dict(self):
        """For `paddle.save`, with model and optimizer."""
        seed, offset = self._stream()
        others = [[k, *v] for k, v in self._streams.items() if k is not None]
        program = self._program_offset()
        return {"seed": seed, "offset": offset, "streams": others, "program_offset": program}

    def set_state_dict(self, state):
        """Goes on where the generator stood that `state` is of."""
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

    def _stream(self):
        key = _paddle_seed() if self._follows else None
        return self._streams.setdefault(key, [0 if key is None else key % _WORD, 0])

    def _paddle_was_seeded(self, seed):
        if self._follows:
            self._streams[seed] = [seed % _WORD, 0]
            self._set_tensors(seed, 0)

    # The seed and the offset of programs. Tensors can be made in dygraph only.
    def _make_tensors(self):
        if self._tensors is None and paddle.in_dynamic_mode():
            seed = paddle.full([1], signed(self._stream()[0]), "int64")
            self._tensors = (seed, paddle.zeros([1], "int64"))

    def _program_offset(self):
        return self._tensors[1].item() if self._tensors else 0

    def _program_state(self):
        return tuple(t.item() for t in self._tensors) if self._tensors else (0, 0)

    def _set_tensors(self, seed, offset):
        if self._tensors is not None and paddle.in_dynamic_mode():
            for tensor, value in zip(self._tensors, (seed, offset)):
                tensor.set_value(paddle.full([1], signed(value), "int64"))

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
    """fleet.utils.recompute keeps the state of random generators, and of one that registers: here of
    all of ours, because a layer may have one of its own."""
    import paddle.distributed.fleet.recompute.recompute  # a module, hidden by a function of its name

    module = sys.modules["paddle.distributed.fleet.recompute.recompute"]
    manager = module.custom_state_manager
    get, put = manager.custom_get_state_func, manager.custom_set_state_func

    def get_state(*args):
        with _generators_lock:
            generators = list(_generators)
        return [(g, g.get_state()) for g in generators], get(*args) if get else None

    def set_state(state):
        for generator, streams in state[0]:
            generator.set_state(streams)
        if put:
            put(state[1])

    manager.custom_get_state_func = get_state
    manager.custom_set_state_func = set_state


_follow_paddle_seed()
_follow_trackers()
_follow_recomputation()
default_generator()
