"""torch.func: vmap with the bits of calls one by one, without a warning; gradients under vmap and vmap under
gradients; the masks of eager mode; what is refused, and how."""

import warnings

import pytest
import torch
from core import assert_same_bits

import twinops.torch as tt
from twinops.torch import functional as F

MASK = torch.randn(8)
BIAS = torch.randn(8)
LENGTHS = torch.tensor([1, 2, 3, 4, 5, 8])
OUT = torch.arange(48).reshape(6, 8) % 5 == 1

FUNCTIONS = {
    "softmax": lambda x: F.softmax(x, -1),
    "softmax, first axis": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax, masks": lambda x: F.softmax(x, -1, mask=OUT.to(x.device), causal=True, causal_offset=4),
    "softmax, added mask": lambda x: F.softmax(x, -1, mask=MASK.to(x.device)),
    "softmax, bias": lambda x: F.softmax(x, -1, mask=OUT.to(x.device), bias=MASK.to(x.device)),
    "softmax, lengths": lambda x: F.softmax(x, -1, lengths=LENGTHS.to(x.device)),
    "random_projection": lambda x: F.random_projection(x, 4, 7),
}
DROPOUTS = {
    "dropout": F.dropout,
    "dropout, bits": lambda x: F.dropout(x, mask="bits"),
    "dropout, bytes": lambda x: F.dropout(x, mask="bytes"),
    "dropout, in place": lambda x: F.dropout(x * 1, inplace=True),
    "dropout1d": F.dropout1d,
    "bitmask_dropout": lambda x: F.bitmask_dropout(x)[0],
    "bias_dropout_residual": lambda x: F.bias_dropout_residual(x, BIAS.to(x.device), x),
    "softmax_dropout": lambda x: F.softmax_dropout(x, 0.3, dropout_mask="bits"),
}
ALL = {**FUNCTIONS, **DROPOUTS}


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="There is a performance drop")
        yield


def one_by_one(f, xs, randomness, seed):
    """What vmap is to give: each of the batch draws its own, or all the same."""
    torch.manual_seed(seed)
    results = []
    for x in xs:
        if randomness == "same":
            torch.manual_seed(seed)
        results.append(f(x))
    return torch.stack(results)


def gradient(f):
    """By PyTorch's ordinary reverse mode."""

    def call(x):
        x = x.detach().clone().requires_grad_()
        return torch.autograd.grad(f(x).square().sum(), x)[0]

    return call


def _modes(name):
    return ("same", "different") if name in DROPOUTS else ("error",)


@pytest.mark.parametrize("name", ALL)
def test_vmap_is_the_calls_one_by_one(name, device):
    f, x = ALL[name], torch.randn(4, 6, 8, device=device)
    for randomness in _modes(name):
        for seed in range(4):
            torch.manual_seed(seed)
            expected = one_by_one(f, x, randomness, seed)
            torch.manual_seed(seed)
            assert_same_bits(torch.vmap(f, randomness=randomness)(x), expected)
            torch.manual_seed(seed)
            last = torch.vmap(f, in_dims=2, out_dims=1, randomness=randomness)(x.movedim(0, 2))
            assert_same_bits(last.movedim(1, 0), expected)
            torch.manual_seed(seed)
            twice = torch.vmap(torch.vmap(f, randomness=randomness), randomness=randomness)
            assert_same_bits(twice(x.reshape(2, 2, 6, 8)).flatten(0, 1), expected)


@pytest.mark.parametrize("name", ALL)
def test_gradients_and_vmap(name, device):
    f, x = ALL[name], torch.randn(4, 6, 8, device=device)
    loss = lambda x: f(x).square().sum()  # noqa: E731
    for randomness in _modes(name):
        for seed in range(4):
            expected = one_by_one(gradient(f), x, randomness, seed)
            torch.manual_seed(seed)
            assert_same_bits(torch.vmap(torch.func.grad(loss), randomness=randomness)(x), expected)
            over = lambda x: torch.vmap(f, randomness=randomness)(x).square().sum()  # noqa: E731, B023
            torch.manual_seed(seed)
            assert_same_bits(torch.func.grad(over)(x), expected)


@pytest.mark.parametrize("name", ALL)
def test_the_masks_and_bits_of_eager_mode(name, device):
    f, x = ALL[name], torch.randn(6, 8, device=device)
    for seed in range(8):
        torch.manual_seed(seed)
        expected, dx = f(x), torch.manual_seed(seed) and gradient(f)(x)
        torch.manual_seed(seed)
        assert_same_bits(torch.func.vjp(f, x)[0], expected)
        torch.manual_seed(seed)
        assert_same_bits(torch.func.grad(lambda x: f(x).square().sum())(x), dx)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name, device):
    f, x = FUNCTIONS[name], torch.randn(6, 8, dtype=torch.float64, device=device)
    loss = lambda x: f(x).square().sum()  # noqa: E731
    given = torch.func.jacrev(torch.func.grad(loss))(x)
    torch.testing.assert_close(given, torch.autograd.functional.hessian(loss, x))


def test_as_pytorchs_functions_do(device):
    x = torch.randn(5, dtype=torch.float64, device=device)
    ours, theirs = (lambda x, f=f: f(x, -1).square().sum() for f in (F.softmax, torch.softmax))
    torch.testing.assert_close(torch.func.grad(ours)(x), torch.func.grad(theirs)(x))
    twice = (torch.func.jacrev(torch.func.grad(f))(x) for f in (ours, theirs))
    torch.testing.assert_close(*twice)


def test_masks_and_lengths_of_a_batch(device):
    x = torch.randn(4, 6, 8, device=device)
    out = torch.rand(4, 8, device=device) < 0.3
    lengths = torch.randint(1, 9, (4, 6), device=device)

    bias = torch.randn(4, 6, 1, device=device)

    def f(x, out, lengths, bias):
        return F.softmax(x, -1, mask=out, lengths=lengths, bias=bias, masked_rows="zeros")

    expected = torch.stack([f(*a) for a in zip(x, out, lengths, bias)])
    assert_same_bits(torch.vmap(f)(x, out, lengths, bias), expected)
    shared = torch.vmap(f, in_dims=(None, 0, None, None))(x[0], out, lengths[0], bias[0])
    assert_same_bits(shared, torch.stack([f(x[0], o, lengths[0], bias[0]) for o in out]))
    last = torch.vmap(f, in_dims=(None, None, None, 2))(x[0], out[0], lengths[0], bias[..., :1].movedim(0, 2))
    assert_same_bits(last, torch.stack([f(x[0], out[0], lengths[0], b) for b in bias]))


def test_gradients_of_masks_of_a_batch(device):
    x, mask = torch.randn(4, 6, 8, device=device), torch.randn(4, 8, device=device)
    f = torch.func.grad(lambda mask, x: F.softmax(x, -1, mask=mask).square().sum())
    assert_same_bits(torch.vmap(f)(mask, x), torch.stack([f(m, y) for m, y in zip(mask, x)]))


def test_dropout_asks_for_the_randomness_as_pytorchs_does(device):
    x = torch.ones(4, 64, device=device)
    for f in (F.dropout, lambda x: F.dropout(x, generator=torch.Generator())):
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            torch.vmap(f)(x)


def test_each_of_a_batch_draws_where_the_tensor_has_none(device):
    x = torch.ones(64, device=device)
    y = torch.vmap(lambda s: F.dropout(x) * s, randomness="different")(torch.ones(3, device=device))
    assert not torch.equal(y[0], y[1]) and not torch.equal(y[1], y[2])


def test_a_generator_is_drawn_from(device):
    x = torch.ones(4, 64, device=device)
    g, state = torch.Generator(), torch.get_rng_state()
    for randomness in ("same", "different"):
        g.manual_seed(5)
        y = torch.vmap(lambda x: F.dropout(x, generator=g), randomness=randomness)(x)
        g.manual_seed(5)
        assert_same_bits(y[0], F.dropout(x[0], generator=g))
        assert torch.equal(y[0], y[1]) == (randomness == "same")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_compiled(randomness, device):
    x = torch.randn(3, 6, 8, device=device)

    def f(x):
        y = torch.vmap(lambda x: F.softmax(F.dropout(x), 0), randomness=randomness)(x)
        return y, torch.vmap(torch.func.grad(lambda x: F.log_softmax(x, -1).square().sum()))(x)

    torch.manual_seed(3)
    expected = f(x)
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    torch.manual_seed(3)
    for a, b in zip(compiled(x), expected):
        assert_same_bits(a, b)


@pytest.mark.parametrize("name", ALL)
def test_forward_mode_is_refused(name, device):
    x = torch.randn(6, 8, device=device)
    with pytest.raises(NotImplementedError, match="no forward-mode gradients"):
        torch.func.jvp(ALL[name], (x,), (x,))


def test_functionalize():
    x = torch.randn(3, 4)
    with tt.override():
        assert_same_bits(torch.func.functionalize(lambda x: torch.softmax(x, -1))(x), torch.softmax(x, -1))
    with tt.patched(), pytest.raises(RuntimeError, match="(?i)functionalize"):
        torch.func.functionalize(lambda x: torch.softmax(x, -1))(x)


def test_refusals_are_of_what_was_given(device):
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\]"):
        torch.vmap(lambda x: F.softmax(x, 2))(torch.ones(2, 3, 4, device=device))
    with pytest.raises(RuntimeError, match=r"mask: expected a shape that broadcasts"):
        torch.vmap(lambda x: F.softmax(x, -1, mask=torch.ones(5, device=device)))(
            torch.ones(2, 3, 4, device=device)
        )
