"""Loss scaling: the two operators, and the GradScaler over them, beside Paddle's rules."""

import warnings

import numpy as np
import paddle
import pytest

import twinops.paddle as tp

F = tp.functional


def test_check_finite_and_unscale_is_in_place_over_mixed_types(rng):
    # Paddle's published case: x [1024, 1024], scale 0.5 -> not found; a list of types here.
    types = ("float16", "bfloat16", "float32", "float64")
    arrays = [rng.uniform(-1, 1, [64, 3]).astype("float32") for _ in types]
    xs = [paddle.to_tensor(a).astype(t) for a, t in zip(arrays, types)]
    before = [x.astype("float64").numpy() for x in xs]
    out, found = F.check_finite_and_unscale(xs, paddle.full([1], 0.5))
    assert found.dtype == paddle.bool and not found.item()
    for x, y, b in zip(xs, out, before):
        assert y is x and np.array_equal(x.astype("float64").numpy(), b * 2)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_found_inf_agrees_with_paddle(value, dtype, rng):
    # Paddle's published cases: one NaN, or one infinity, in the list. Values differ on a CPU, where
    # Paddle writes zeros from there on; so only found_inf is compared.
    arrays = [rng.uniform(-1, 1, [128]).astype(dtype) for _ in range(2)]
    arrays[1][77] = value
    for bad in (True, False):
        if not bad:
            arrays[1][77] = 0
        scale = paddle.to_tensor(np.array([2.0], dtype if dtype == "float64" else "float32"))
        ours = F.check_finite_and_unscale([paddle.to_tensor(a) for a in arrays], scale)[1]
        theirs = paddle.zeros([1], "bool")
        xs = [paddle.to_tensor(a) for a in arrays]
        paddle._legacy_C_ops.check_finite_and_unscale(xs, scale, xs, theirs)
        assert ours.item() == theirs.item() == bad


# Paddle's published cases of update_loss_scaling: found and not, at the limit and before it.
@pytest.mark.parametrize(
    "found, good, bad, scale, expected",
    [
        (True, 999, 1, 2048.0, (1638.4, 0, 0)),  # lowered by 0.8
        (True, 999, 0, 2048.0, (2048.0, 0, 1)),
        (False, 999, 1, 2048.0, (4096.0, 0, 0)),  # raised by 2
        (False, 10, 1, 2048.0, (2048.0, 11, 0)),
    ],
)
def test_update_loss_scaling_agrees_with_paddles_rules(found, good, bad, scale, expected, rng):
    x = paddle.to_tensor(rng.uniform(1, 2, [5, 7]).astype("float32"))
    state = paddle.full([1], scale), paddle.full([1], good, "int32"), paddle.full([1], bad, "int32")
    F.update_loss_scaling([x], paddle.full([1], found, "bool"), *state, 1000, 2, 2.0, 0.8)
    assert np.float32(expected[0]) == state[0].item()
    assert (state[1].item(), state[2].item()) == expected[1:]
    assert (x.numpy() == 0).all() == found


def test_stop_update_leaves_the_state():
    state = paddle.full([1], 8.0), paddle.full([1], 5, "int32"), paddle.full([1], 0, "int32")
    F.update_loss_scaling([], paddle.full([1], True, "bool"), *state, 10, 1, 2.0, 0.5, True)
    assert [t.item() for t in state] == [8.0, 5, 0]


def test_the_floor_is_the_callers_and_raises_nothing():
    state = paddle.full([1], 0.25), paddle.full([1], 0, "int32"), paddle.full([1], 0, "int32")
    found = paddle.full([1], True, "bool")
    F.update_loss_scaling([], found, *state, 10, 1, 2.0, 0.5)
    assert state[0].item() == 0.25
    F.update_loss_scaling([], found, *state, 10, 1, 2.0, 0.25, min_scale=0.125)
    assert state[0].item() == 0.125
    scaler = tp.GradScaler(init_loss_scaling=2.0, min_scale=0.5)
    train(scaler, 4, poison=range(4))
    assert scaler._scale.item() == 0.5


def train(scaler, steps, poison=()):
    """A linear model; the gradient of a step in `poison` is infinite. Returns scales and weights."""
    paddle.seed(4)
    model = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.SGD(0.125, parameters=model.parameters())
    scales, weights = [], []
    for step in range(steps):
        x = paddle.full([4, 3], np.inf if step in poison else 0.5)
        loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        scales.append(scaler.state_dict()["scale"].item() if scaler.is_enable() else None)
        weights.append(model.weight.numpy().copy())
    return scales, weights


def test_grad_scaler_raises_and_lowers_the_scale():
    scaler = tp.GradScaler(init_loss_scaling=16.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1)
    scales, weights = train(scaler, 6, poison={3})
    assert scales == [16, 32, 32, 16, 16, 32]
    assert np.array_equal(weights[3], weights[2])  # the step was skipped
    for a, b in zip(weights[:3], weights[1:3]):
        assert not np.array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_grad_scaler_unscales_every_type(dtype):
    linear = paddle.nn.Linear(2, 2)
    other = paddle.create_parameter([2], dtype, default_initializer=paddle.nn.initializer.Constant(3))
    optimizer = paddle.optimizer.SGD(0.5, parameters=[*linear.parameters(), other])
    scaler = tp.GradScaler(init_loss_scaling=1024.0)
    loss = linear(paddle.ones([1, 2])).sum() + (2 * other).sum().astype("float32")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    assert (other.numpy() == 2).all()  # 3 - 0.5 * 2
    other.grad.set_value(paddle.to_tensor([1.0, float("inf")]).astype(dtype))
    before = linear.bias.numpy().copy()
    scaler.update()
    scaler.step(optimizer)
    assert np.array_equal(linear.bias.numpy(), before)  # skipped


def test_a_power_of_two_changes_no_bit():
    _, scaled = train(tp.GradScaler(init_loss_scaling=1024.0), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, plain = train(paddle.amp.GradScaler(enable=False), 4)
    for a, b in zip(scaled, plain):
        assert np.array_equal(a, b)


def test_grad_scaler_is_saved_and_restored():
    scaler = tp.GradScaler(init_loss_scaling=64.0, incr_every_n_steps=3)
    train(scaler, 2)
    state = scaler.state_dict()
    assert state["incr_count"] == 2 and state["decr_count"] == 0
    other = tp.GradScaler()
    other.load_state_dict(state)
    assert train(other, 1)[0] == [128.0]


def test_unscale_may_be_called_once():
    model = paddle.nn.Linear(2, 2)
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    scaler = tp.GradScaler(init_loss_scaling=4.0)
    scaler.scale(model(paddle.ones([1, 2])).sum()).backward()
    scaler.unscale_(optimizer)
    assert np.array_equal(model.bias.grad.numpy(), np.ones(2, "float32"))
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


def test_a_scaler_that_is_off_does_nothing():
    scaler = tp.GradScaler(enable=False)
    loss = paddle.ones([1])
    assert scaler.scale(loss) is loss and scaler.state_dict() == {}


def test_a_sparse_gradient_is_refused_with_a_word_on_what_to_do():
    embedding = paddle.nn.Embedding(4, 3, sparse=True)
    optimizer = paddle.optimizer.SGD(0.1, parameters=embedding.parameters())
    scaler = tp.GradScaler()
    scaler.scale(embedding(paddle.to_tensor([1])).sum()).backward()
    with pytest.raises(NotImplementedError, match="sparse.*make the embedding with sparse=False"):
        scaler.step(optimizer)
