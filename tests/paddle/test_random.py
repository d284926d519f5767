"""The random state: it follows paddle.seed, is saved and restored, is the same after recomputation;
and what is drawn is the contract's sequence."""

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import paddle
import pytest
from paddle.distributed.fleet.utils import recompute

import twinops.paddle as tp

F = tp.functional


def draw(n=64):
    return F.dropout(paddle.ones([n]), 0.5).numpy()


def test_paddle_seed_begins_again():
    paddle.seed(11)
    first, second = draw(), draw()
    assert not np.array_equal(first, second)
    paddle.seed(11)
    assert np.array_equal(draw(), first) and np.array_equal(draw(), second)
    paddle.seed(12)
    assert not np.array_equal(draw(), first)


def test_a_seed_that_was_given_behind_our_back_is_seen():
    paddle.framework.core.default_cpu_generator().manual_seed(77)
    hidden = draw()
    paddle.seed(77)
    assert np.array_equal(draw(), hidden)


def test_calls_draw_behind_each_other():
    paddle.seed(0x1234)
    draws = np.concatenate([draw(10), draw(64), draw(3)])
    words = F.philox_words([80], seed=0x1234).numpy().view(np.uint32)
    uniform = words.astype(np.float64) * 2.0**-32 + 2.0**-33  # curand_uniform, in double
    kept = uniform < 0.5
    expected = np.concatenate([kept[:10], kept[12:76], kept[76:79]])
    assert np.array_equal(draws != 0, expected)
    assert tp.default_generator().offset() == 80


def test_nothing_is_drawn_where_nothing_is_dropped():
    paddle.seed(1)
    x = paddle.ones([8])
    for arguments in ({"p": 0.0}, {"p": 1.0}, {"training": False}):
        F.dropout(x, **arguments)
    assert tp.default_generator().offset() == 0


def test_the_state_is_saved_and_restored(tmp_path):
    paddle.seed(21)
    draw()
    paddle.save({"random": tp.default_generator().state_dict()}, str(tmp_path / "checkpoint"))
    expected = draw(), draw()
    paddle.seed(99)  # another process has another seed
    tp.default_generator().set_state_dict(paddle.load(str(tmp_path / "checkpoint"))["random"])
    assert np.array_equal(draw(), expected[0]) and np.array_equal(draw(), expected[1])


def test_a_generator_of_its_own_does_not_follow():
    mine = tp.Generator(5)
    first = F.dropout(paddle.ones([64]), 0.5, generator=mine).numpy()
    paddle.seed(1)
    second = F.dropout(paddle.ones([64]), 0.5, generator=mine).numpy()
    mine.manual_seed(5)
    assert np.array_equal(F.dropout(paddle.ones([64]), 0.5, generator=mine).numpy(), first)
    assert np.array_equal(F.dropout(paddle.ones([64]), 0.5, generator=mine).numpy(), second)


def test_threads_never_take_the_same_words():
    mine = tp.Generator(1)
    with ThreadPoolExecutor(8) as pool:
        offsets = list(pool.map(lambda _: mine.reserve(4)[1], range(4000)))
    assert sorted(offsets) == list(range(0, 16000, 4))


def test_a_seed_of_64_bits():
    big = (1 << 64) - 3
    words = F.philox_words([8], seed=big).numpy()
    kept = F.dropout(paddle.ones([8]), 0.5, generator=tp.Generator(big)).numpy() != 0
    assert np.array_equal(kept, words.view(np.uint32) < 0x7FFFFFC0)


@pytest.mark.parametrize("fill", [F.uniform, F.philox_words])
@pytest.mark.parametrize(
    "place",
    [
        {"offset": 8},
        {"subsequence": 1},
        {"element_offset": 4},
        {"global_shape": "100", "start": "90"},
        {"layout": "triton"},
    ],
)
def test_where_to_draw_is_said_with_a_seed_only(fill, place):
    paddle.seed(4)
    with pytest.raises(ValueError, match=f"{list(place)[0]}.* needs a seed"):
        fill([8], **place)
    assert tp.default_generator().offset() == 0
    fill([8], seed=1, **place)


def test_a_fill_takes_the_default_generators_next_words():
    paddle.seed(6)
    words = [F.philox_words([5]).numpy(), F.philox_words([8], layout="strided", period=1).numpy()]
    expected = F.philox_words([16], seed=6).numpy()
    assert np.array_equal(np.concatenate(words), expected[np.r_[0:5, 8:16]])
    assert tp.default_generator().offset() == 16


def state_of(generator):
    return generator.initial_seed(), generator.offset()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copied_generator_goes_on_by_itself(copied):
    mine = tp.Generator(5)
    mine.reserve(12)
    other = copied(mine)
    assert state_of(other) == state_of(mine) == (5, 12)
    first = F.dropout(paddle.ones([64]), 0.5, generator=mine).numpy()
    assert state_of(other) == (5, 12)
    assert np.array_equal(F.dropout(paddle.ones([64]), 0.5, generator=other).numpy(), first)
    assert copied(tp.default_generator()) is tp.default_generator()


def test_a_copied_model_draws_what_the_original_would():
    model = paddle.nn.Sequential(tp.Dropout(0.5, generator=tp.Generator(7)), tp.Dropout(0.5))
    other = copy.deepcopy(model)
    x = paddle.ones([64])
    assert np.array_equal(model[0](x).numpy(), other[0](x).numpy())


def test_a_copied_generator_stands_where_programs_left_the_original():
    mine = tp.Generator(5)

    @paddle.jit.to_static(full_graph=True)
    def f(x):
        return F.dropout(x, 0.5, generator=mine)

    f(paddle.ones([64]))
    assert mine.state_dict()["program_offset"] != 0
    assert copy.deepcopy(mine).state_dict() == mine.state_dict()


def test_generators_are_not_kept():
    from twinops.paddle.generator import _generators

    before = len(_generators)
    tp.Generator(1)
    gc.collect()
    assert len(_generators) <= before


class Block(paddle.nn.Layer):
    def __init__(self, generator=None):
        super().__init__()
        self.linear = paddle.nn.Linear(16, 16)
        self.dropout = tp.Dropout(0.5, generator=generator)

    def forward(self, x):
        return self.dropout(paddle.tanh(self.dropout(self.linear(x))))


@pytest.mark.parametrize("own", [False, True])
def test_recomputation_draws_the_same_masks(own, rng):
    mine = tp.Generator(5) if own else None
    block = Block(mine)
    used = mine or tp.default_generator()
    array = rng.standard_normal([8, 16]).astype("float32")

    def gradients(through):
        paddle.seed(3)
        if own:
            mine.manual_seed(5)
        block.clear_gradients()
        x = paddle.to_tensor(array, stop_gradient=False)
        y = through(block, x)
        after_forward = used.offset()
        F.dropout(x, generator=mine)  # another call, before the backward pass recomputes
        y.sum().backward()
        return x.grad.numpy(), block.linear.weight.grad.numpy(), after_forward, draw()

    plain = gradients(lambda f, x: f(x))
    again = gradients(recompute)
    for a, b in zip(plain, again):
        assert np.array_equal(a, b)


def test_the_trackers_seeds_have_offsets_of_their_own():
    from paddle.distributed.fleet.meta_parallel import get_rng_state_tracker

    tracker = get_rng_state_tracker()
    tracker.reset()
    paddle.seed(1)
    first = draw()
    paddle.seed(1)
    tracker.add("local", 1001)
    paddle.seed(1)
    assert np.array_equal(draw(), first)
    with tracker.rng_state("local"):
        inside = draw()
    second = draw()
    with tracker.rng_state("local"):
        inside_again = draw()
    tracker.reset()
    assert not np.array_equal(first, second)
    assert not np.array_equal(inside, inside_again)
    assert not np.array_equal(inside, second)


def test_a_seed_for_a_tracker_leaves_programs_alone():
    from paddle.distributed.fleet.meta_parallel import get_rng_state_tracker

    @paddle.jit.to_static(full_graph=True)
    def program(x):
        return F.dropout(x, 0.5)

    x, tracker = paddle.ones([64]), get_rng_state_tracker()
    paddle.seed(5)
    first, second = program(x).numpy(), program(x).numpy()
    paddle.seed(5)
    assert np.array_equal(program(x).numpy(), first)
    tracker.reset()
    tracker.add("local", 2002)
    assert np.array_equal(program(x).numpy(), second)
    tracker.reset()


def test_paddles_rng_state_carries_ours():
    @paddle.jit.to_static(full_graph=True)
    def program(x):
        return F.dropout(x, 0.5)

    paddle.seed(4)
    draw(), program(paddle.ones([64]))
    states = paddle.get_rng_state()
    expected = draw(), program(paddle.ones([64])).numpy()
    paddle.set_rng_state(states)
    assert np.array_equal(draw(), expected[0])
    assert np.array_equal(program(paddle.ones([64])).numpy(), expected[1])
    paddle.set_rng_state(list(states))  # one of Paddle's alone


@pytest.mark.parametrize("state", [{}, {"seed": 1, "offset": 4}])
def test_a_dict_that_is_no_state_is_refused(state):
    paddle.seed(4)
    before = state_of(tp.default_generator())
    with pytest.raises(ValueError, match="expected what state_dict"):
        tp.default_generator().set_state_dict(state)
    assert state_of(tp.default_generator()) == before


class Drawn(paddle.io.Dataset):
    """Draws in the worker processes of a DataLoader, from a generator that it brings and the default one."""

    def __init__(self):
        self.mine = tp.Generator(3)

    def __len__(self):
        return 8

    def __getitem__(self, i):
        x = paddle.ones([64])
        own = F.dropout(x, 0.5, generator=tp.Generator(i))
        return F.dropout(x, 0.5, generator=self.mine).numpy(), F.dropout(x, 0.5).numpy(), own.numpy()


def test_workers_draw_apart_from_each_other_and_anew_each_epoch():
    def epochs():
        np.random.seed(1)  # Paddle takes the seeds of its workers from it
        loader = paddle.io.DataLoader(Drawn(), batch_size=1, num_workers=2, use_shared_memory=False)
        batches = [batch for _ in range(2) for batch in loader]
        return [[tensor.numpy().tobytes() for tensor in batch] for batch in batches]

    first = epochs()
    assert len(first) == 16
    for which, different in ((0, 16), (1, 16), (2, 8)):  # a generator made there has its own seed
        assert len({sample[which] for sample in first}) == different
    assert epochs() == first
