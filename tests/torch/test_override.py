"""override(): twinops' kernels under the names of ATen's, and parts of what PyTorch's own tests hold of
these functions."""

import gc
import weakref

import pytest
import torch
import torch._dynamo
from core import assert_same_bits, seeded
from torch import nn

import twinops.torch as tt
from twinops.torch import functional as F

NN = torch.nn.functional


def test_atens_kernels_are_replaced_and_put_back(device):
    x = torch.randn(7, 33, device=device).requires_grad_()
    theirs = torch.softmax(x, -1)
    with tt.override():
        y = torch.softmax(x, -1)
        assert_same_bits(y, F.softmax(x, -1))
        assert y.grad_fn.name() == "SoftmaxBackward0"  # PyTorch's autograd, our kernels
        g = torch.randn_like(y)
        (dx,) = torch.autograd.grad(y, x, g)
        assert_same_bits(dx, torch.autograd.grad(F.softmax(x, -1), x, g)[0])
        z = seeded(NN.dropout)(x, 0.3)
        assert_same_bits(z, seeded(F.dropout)(x, 0.3))
        (dx,) = torch.autograd.grad(z, x, g)
        assert_same_bits(dx, torch.autograd.grad(seeded(F.dropout)(x, 0.3), x, g)[0])
        entropy = NN.cross_entropy(x, torch.arange(7, device=device))
        expected = NN.nll_loss(F.log_softmax(x, 1), torch.arange(7, device=device))
        assert_same_bits(entropy, expected)
    assert_same_bits(torch.softmax(x, -1), theirs)


def test_override_holds_though_nobody_keeps_what_it_returns():
    x = torch.ones(100)
    expected = seeded(F.dropout)(x)
    made = weakref.ref(tt.override())
    try:
        gc.collect()
        assert_same_bits(seeded(NN.dropout)(x), expected)
    finally:
        made().remove()
    gc.collect()
    assert made() is None
    assert not seeded(NN.dropout)(x).equal(expected)


def test_override_twice_is_as_good_as_once():
    x = torch.ones(100)
    theirs, ours = seeded(NN.dropout)(x), seeded(F.dropout)(x)
    for order in ((0, 1), (1, 0)):
        both = tt.override(), tt.override()
        both[order[0]].remove()
        both[order[0]].remove()
        assert_same_bits(seeded(NN.dropout)(x), ours)
        both[order[1]].remove()
        assert_same_bits(seeded(NN.dropout)(x), theirs)


def _shapes():
    return [(), (1,), (0,), (3, 0), (0, 3), (5,), (3, 4), (2, 3, 4), (2, 3, 4, 5)]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_facts_of_softmax_under_override(name, device):
    """What PyTorch's tests hold of it: shapes, types, sums, shifts, gradients, broken inputs."""
    f = getattr(torch, name)
    with tt.override():
        for shape in _shapes():
            for dim in range(-max(len(shape), 1), max(len(shape), 1)):
                x = torch.randn(shape, device=device)
                y = f(x, dim)
                assert y.shape == x.shape and y.is_contiguous()
                p = y.exp() if name == "log_softmax" else y
                if x.numel():
                    torch.testing.assert_close(p.sum(dim), torch.ones_like(p.sum(dim)))
        x = torch.randn(3, 5, dtype=torch.float64, device=device, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: f(x, 1), x)
        assert torch.autograd.gradgradcheck(lambda x: f(x, 1), x)
        assert f(x.half(), 1).dtype == torch.float16
        if device == "cuda":
            assert f(x.half(), 1, dtype=torch.float32).dtype == torch.float32
        with pytest.raises(IndexError, match="Dimension out of range"):
            f(x, 2)
        big = torch.tensor([[1e4, -1e4, 1e4], [-1e38, -1e38, -1e38]], device=device)
        assert f(big, 1).isfinite().all() or name == "log_softmax"
        nan = f(torch.tensor([[float("nan"), 1.0]], device=device), 1)
        assert nan.isnan().all()
        transposed = torch.randn(5, 3, device=device).t()
        assert_same_bits(f(transposed, 0), f(transposed.contiguous(), 0))


def test_facts_of_dropout_under_override(device):
    """Of nn.Dropout: the share that is kept, the scale, the ends, eval mode, no pattern in place."""
    with tt.override():
        x = torch.ones(1000, 10, device=device)
        for p in (0.2, 0.5, 0.8):
            y = NN.dropout(x, p)
            assert abs((y == 0).float().mean().item() - p) < 0.03
            torch.testing.assert_close(y[y != 0].mean(), torch.tensor(1 / (1 - p), device=device))
        assert NN.dropout(x, 0.0).equal(x) and (NN.dropout(x, 1.0) == 0).all()
        assert nn.Dropout(0.5).eval()(x).equal(x)
        with pytest.raises(ValueError):
            NN.dropout(x, -0.1)
        leaf = torch.ones(1000, device=device, requires_grad=True)
        y = NN.dropout(leaf, 0.5)
        y.sum().backward()
        assert_same_bits(leaf.grad, y.detach())
        out, mask = torch.native_dropout(leaf, 0.5, True)
        assert mask.dtype == torch.bool and not mask.requires_grad
        assert_same_bits(out.detach(), mask * 2.0)
        with torch.inference_mode():
            assert (NN.dropout(x, 0.5) == 0).any()
        half = NN.dropout(x.half(), 0.5)
        assert half.dtype == torch.float16


def test_override_under_compile(device):
    x = torch.randn(8, 16, device=device)
    with tt.override():
        compiled = torch.compile(lambda x: torch.softmax(x, -1), backend="eager", fullgraph=True)
        assert_same_bits(compiled(x), F.softmax(x, -1))


def test_dropout_of_override_is_not_compiled(monkeypatch):
    """Behind a graph break that leaves a model to Python, frames are compiled wherever they are called from."""
    tried = []
    convert = torch._dynamo.convert_frame.ConvertFrame.__call__
    monkeypatch.setattr(
        torch._dynamo.convert_frame.ConvertFrame,
        "__call__",
        lambda self, frame, *rest, **named: tried.append(frame.f_code.co_name) or convert(self, frame, *rest, **named),
    )
    model = nn.Sequential(nn.Softmax(-1), nn.Dropout(0.3), nn.LogSoftmax(-1))

    def broken(x):
        try:
            torch._dynamo.graph_break()
            return model(x)
        finally:
            pass

    x = torch.randn(4, 8)
    torch._dynamo.reset()
    with tt.override():
        assert_same_bits(seeded(torch.compile(broken, backend="eager"))(x), seeded(model)(x))
    assert tried == ["broken"]


def test_graphs_that_are_made_after_override(device):
    """PyTorch keeps which kernel a graph takes: behind override() it has to look again."""
    x = torch.randn(2, 4, 16, 8, device=device, requires_grad=True)

    def attention(x):
        return NN.scaled_dot_product_attention(x, x * 2, x, dropout_p=0.5)

    def results(f):
        torch._dynamo.reset()
        y = seeded(f)(x)
        return y, torch.autograd.grad(y.square().sum(), x)[0]

    def compiled(f):
        return torch.compile(f, backend="aot_eager", fullgraph=True)

    torch.ops.aten.dropout.default._dispatch_cache.clear()  # as in a process where nothing was compiled yet
    with tt.override():
        given = results(compiled(lambda x: NN.dropout(x, 0.3)))
        assert_same_bits(given[0], seeded(F.dropout)(x, 0.3))
    for f in (lambda x: NN.dropout(x, 0.3), attention):
        for a, b in zip(results(compiled(f)), results(f), strict=True):
            torch.testing.assert_close(a, b)


def test_native_dropout_under_override(device):
    x = torch.randn(7, 5, device=device)
    with tt.override():
        for train in (None, True):
            y, mask = seeded(torch.native_dropout)(x, 0.5, train)
            assert_same_bits(y, seeded(F.dropout)(x))
            assert mask.equal(y != 0)
        y, mask = torch.native_dropout(x, 1.0, True)
        assert not y.any() and not mask.any()
        for t in (x, x.t(), x.to(torch.int64), x.to(torch.complex64)):
            for p, train in ((0.5, False), (0.0, True)):
                y, mask = torch.native_dropout(t, p, train)
                assert y.equal(t) and y is not t and mask.all() and mask.shape == t.shape
        strided, _ = seeded(torch.native_dropout)(x.t(), 0.5, True)
        assert_same_bits(strided, seeded(F.dropout)(x.t()))
        leaf = x.t().detach().requires_grad_()
        y, mask = torch.native_dropout(leaf, 0.3, True)
        g = torch.randn(7, 5, device=device).t()
        (dx,) = torch.autograd.grad(y, leaf, g)
        assert dx.ne(0).equal(mask)
        strided = mask.t().contiguous().t()
        assert_same_bits(torch.ops.aten.native_dropout_backward(g, strided, 1 / 0.7), dx)
        for p in (0.1, 0.5139005819905295, 0.5997131665019889, 0.9):  # of two the inverse of the scale is not 1 - p
            leaf = torch.randn(40, dtype=torch.float64, device=device, requires_grad=True)
            y, _ = torch.native_dropout(leaf, p, True)
            assert_same_bits(torch.autograd.grad(y, leaf, leaf.detach())[0], y.detach())
        state = torch.get_rng_state()
        torch.native_dropout(torch.empty(0, 3, device=device), 0.5, True)
        assert torch.get_rng_state().equal(state)
        whole, complex_ = x.to(torch.int64), x.to(torch.complex64)
        for other in (whole,) if device == "cpu" else (whole, complex_):
            with pytest.raises(RuntimeError):
                NN.dropout(other)
        if device == "cpu":
            assert not NN.dropout(whole, 1.0).any() and not NN.dropout(complex_, 1.0).any()
            y = NN.dropout(complex_)
            assert ((y == 0) | (y == 2 * complex_)).all() and y.any()
        with pytest.raises(RuntimeError, match="probability"):
            torch.dropout(x, 1.5, True)


_PYTORCHS = {
    "dropout1d": lambda x: NN.dropout1d(x, 0.5),
    "dropout2d": lambda x: NN.dropout2d(x[None], 0.5),
    "alpha_dropout": lambda x: NN.alpha_dropout(x, 0.5, True),
    "in_place": lambda x: NN.dropout(x.clone(), 0.5, inplace=True),
    "out": lambda x: torch.softmax(x, -1, out=torch.empty_like(x)),
    "func.grad": torch.func.grad(lambda x: NN.dropout(x, 0.5).sum()),
    "vmap": torch.vmap(lambda x: NN.dropout(x, 0.5), randomness="different"),
    "fused attention": lambda x: NN.scaled_dot_product_attention(*[x[None]] * 3),
}


@pytest.mark.parametrize("call", _PYTORCHS.values(), ids=_PYTORCHS)
def test_what_docs_say_stays_pytorchs(call):
    x = torch.randn(3, 40, 7)
    expected = seeded(call)(x)
    with tt.override():
        assert_same_bits(seeded(call)(x), expected)


def test_softmax_backward_of_another_type(device):
    """What a softmax that converts has as its gradient's type."""
    y = torch.softmax(torch.randn(3, 8, device=device), -1)
    g = torch.randn(3, 8, device=device)
    for op in ("softmax", "log_softmax"):
        expected = getattr(torch.ops.twinops, op + "_grad")(y, g, dx_type="float16")[0]
        with tt.override():
            assert_same_bits(getattr(torch.ops.aten, f"_{op}_backward_data")(g, y, -1, torch.float16), expected)


def test_override_prints_nothing(capfd):
    torch.set_warn_always(True)  # else PyTorch warns of the first kernel that is replaced alone
    try:
        tt.override().remove()
    finally:
        torch.set_warn_always(False)
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_is_captured_under_override_draws_anew():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x = torch.ones(256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with tt.override():
        NN.dropout(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y, mask = torch.native_dropout(x, 0.5, True)

    def replay():
        graph.replay()
        assert mask.equal(y != 0)
        return y.clone()

    torch.manual_seed(3)
    a, b = replay(), replay()
    assert not a.equal(b)
    torch.manual_seed(3)
    assert_same_bits(replay(), a)
