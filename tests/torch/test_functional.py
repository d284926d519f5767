"""twinops.torch.functional and the modules: beside PyTorch's functions, and their gradients."""

import numpy as np
import pytest
import torch
from core import assert_same_bits, seeded
from tensors import TYPES
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

import twinops.torch as tt
from twinops.torch import functional as F

ops = torch.ops.twinops
NN = torch.nn.functional


def _double(*shape, device="cpu"):
    return torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_is_pytorchs(name, dim, device):
    x = _double(4, 3, 5, device=device)
    ours, theirs = getattr(F, name)(x, dim), getattr(NN, name)(x, dim)
    torch.testing.assert_close(ours, theirs)
    g = torch.randn_like(ours)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, g)[0] for y in (ours, theirs)))


def test_softmax_takes_what_pytorchs_takes(device):
    scalar = torch.tensor(3.0, device=device, requires_grad=True)
    y = F.softmax(scalar, 0)
    assert y.shape == () and y.item() == 1
    y.backward()
    assert scalar.grad.item() == 0
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        assert_same_bits(F.softmax(torch.ones(2, 3)), F.softmax(torch.ones(2, 3), 1))
    half = torch.randn(5, 9, device=device).half().requires_grad_()
    wide = F.softmax(half, -1, dtype=torch.float32)
    x = half.detach().float().requires_grad_()
    expected = torch.softmax(x, -1)
    torch.testing.assert_close(wide, expected, atol=0, rtol=1e-6)  # by an operator of its own
    g = torch.randn_like(wide)
    (to_half,) = torch.autograd.grad(wide, half, g)
    (to_float,) = torch.autograd.grad(expected, x, g)
    torch.testing.assert_close(to_half, to_float.half(), atol=1e-4, rtol=1e-3)
    ones = torch.ones(3, dtype=torch.int64, device=device)
    assert F.softmax(ones, 0, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("call, error, message", [
    (lambda x: F.softmax(x, 2), IndexError, r"Dimension out of range .*\[-2, 1\], but got 2"),
    (lambda x: F.softmax(x, 1.0), TypeError, "argument 'dim' must be int"),
    (lambda x: F.log_softmax(x, True), TypeError, "argument 'dim' must be int, not bool"),
    (lambda x: F.dropout(x, 0.5, 1), TypeError, "argument 'training' must be bool, not int"),
    (lambda x: F.bias_dropout_residual(x, training=None), TypeError, "argument 'training' must be bool"),
    (lambda x: F.softmax([1.0], 0), TypeError, "argument 'input' must be Tensor"),
    (lambda x: F.dropout(x, -0.1), ValueError, "has to be between 0 and 1, but got -0.1"),
    (lambda x: F.dropout(x, 1.1), ValueError, "has to be between 0 and 1, but got 1.1"),
    (lambda x: F.dropout([1.0]), TypeError, "argument 'input' must be Tensor"),
    (lambda x: F.dropout2d([1.0]), TypeError, r"dropout2d\(\): argument 'input' must be Tensor"),
    (lambda x: F.dropout3d([1.0]), TypeError, r"dropout3d\(\): argument 'input' must be Tensor"),
    (lambda x: F.bitmask_dropout([1.0]), TypeError, r"bitmask_dropout\(\): argument 'input' must be"),
    (lambda x: F.bias_dropout_residual([1.0]), TypeError, r"bias_dropout_residual\(\): argument 'input'"),
    (lambda x: F.softmax_dropout([1.0]), TypeError, r"softmax_dropout\(\): argument 'input' must be"),
    (lambda x: F.dropout1d(x[0]), RuntimeError, "dropout1d: Expected 2D or 3D input"),
    (lambda x: F.softmax(x, -1, mask=x.long()), TypeError, "mask: expected bool or uint8"),
    (lambda x: F.softmax(x, -1, scale=x.requires_grad_()[0, 0]), TypeError, "scale: expected a number"),
    (lambda x: F.dropout(x, global_shape=(2, 3)), ValueError, "global_shape is given without start"),
    (lambda x: F.dropout(x, mask="byte"), ValueError, "mask has to be 'auto', 'bits', 'bytes' or None"),
    (lambda x: F.dropout(x, start=(0, 0)), ValueError, "start is given without global_shape"),
    (lambda x: F.softmax(x, -1, causal_offset=1), RuntimeError, "causal_offset: is given without"),
])
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(2, 3))


@pytest.mark.parametrize("x_type", [torch.float32, torch.bfloat16])
def test_masks_of_softmax(x_type, device):
    x = torch.randn(3, 4, 6, device=device).to(x_type)
    added = torch.randn(4, 6, device=device)
    out = torch.rand(3, 1, 6, device=device) < 0.3
    lengths = torch.tensor([6, 3, 0], device=device)
    causal = torch.ones(4, 6, dtype=torch.bool, device=device).tril(1).logical_not()
    beyond = torch.arange(6, device=device) >= lengths[:, None, None]
    plain = x.float()
    cases = [
        (dict(mask=added, scale=0.5), 0.5 * plain + added),
        (dict(mask=out), plain.masked_fill(out, -torch.inf)),
        (dict(causal=True, causal_offset=1), plain.masked_fill(causal, -torch.inf)),
        (dict(lengths=lengths, masked_rows="zeros"), plain.masked_fill(beyond, -torch.inf)),
    ]
    for masks, scores in cases:
        expected = torch.softmax(scores, -1)
        if "lengths" in masks:
            expected = expected.nan_to_num(0.0)
        torch.testing.assert_close(
            F.softmax(x, -1, **masks).float(), expected, atol=4e-3, rtol=4e-3, equal_nan=True
        )


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_what_is_masked_out_has_no_gradient(op, device):
    """Whatever comes for it: the gradient of a loss that smooths labels, or, where logarithms are taken, a
    NaN. (Probabilities that are masked out are 0, and their gradients are computed without the masks.)"""
    x = torch.randn(3, 4, 6, device=device, requires_grad=True)
    out = torch.rand(3, 1, 6, device=device) < 0.3
    lengths = torch.tensor([6, 3, 0], device=device)
    beyond = torch.arange(6, device=device) >= lengths[:, None, None]
    causal = torch.ones(4, 6, dtype=torch.bool, device=device).triu(2)
    for masks, is_out in [
        (dict(mask=out, masked_rows="zeros"), out),
        (dict(mask=torch.zeros(3, 1, 6, device=device).masked_fill(out, -torch.inf), masked_rows="zeros"), out),
        (dict(lengths=lengths, masked_rows="zeros"), beyond),
        (dict(causal=True, causal_offset=1), causal),
    ]:
        is_out = is_out.expand(x.shape)
        y = getattr(F, op)(x, -1, **masks)
        dy = torch.randn_like(y)
        (dx,) = torch.autograd.grad(y, x, dy.masked_fill(is_out, 0), retain_graph=True)
        for value in (-0.025, torch.nan)[: 2 if op == "log_softmax" else 1]:
            (again,) = torch.autograd.grad(y, x, dy.masked_fill(is_out, value), retain_graph=True)
            assert torch.equal(again, dx)
        assert (dx[is_out] == 0).all() and dx[~is_out].isfinite().all()


def test_gradients_are_those_of_finite_differences(device):
    x, bias, residual = _double(3, 5, device=device), _double(5, device=device), _double(3, 5, device=device)
    added = _double(3, 1, device=device)
    whole = _double(3, 5, device=device)
    out = torch.tensor([False, True, False, False, True], device=device)
    cases = [
        (lambda x, m: F.softmax(x, -1, mask=m, scale=0.7), (x, added)),
        (lambda x, m: F.log_softmax(x, 0, mask=m, scale=0.7), (x, added)),
        (lambda x, m: F.softmax(x, -1, bias=m, mask=out), (x, added)),
        (lambda x, m, b: F.log_softmax(x, -1, bias=b, mask=m), (x, added, bias)),
        (lambda x, m: F.softmax_dropout(x, 0.3, bias=m, mask=out), (x, added)),
        (lambda x: F.softmax(x, -1, causal=True), (x,)),
        (lambda x: F.dropout(x, 0.3), (x,)),
        (lambda x: F.dropout(x, 0.3, mask="bits"), (x,)),
        (lambda x: F.dropout(x * 1, 0.3, inplace=True), (x,)),
        (lambda x, b, r: F.bias_dropout_residual(x, b, r, 0.3), (x, bias, residual)),
        (lambda x, b: F.bias_dropout_residual(x, b, None, 0.3, mask="bytes"), (x, whole)),
        (lambda x, b: F.bias_dropout_residual(x, b, training=False), (x, bias)),
        *(
            (lambda x, b: F.bias_dropout_residual(x, b, None, 0.3), (x, _double(*shape, device=device)))
            for shape in ([1, 5], [1, 1, 5], [3, 1], [1])
        ),
        (lambda x, b: F.bias_dropout_residual(x, b.reshape([]), None, 0.3), (x, _double(1, device=device))),
        (lambda x: F.softmax_dropout(x, 0.3, scale=0.7), (x,)),
        (lambda x: F.softmax_dropout(x, 0.3, 0, dropout_mask="bits"), (x,)),
        (lambda x, m: F.softmax_dropout(x, 0.3, mask=m), (x, added)),
        (lambda x: F.random_projection(x, 4, seed=3), (x,)),
        (lambda x: F.dropout1d(x, 0.3), (x,)),
    ]
    for f, inputs in cases:
        assert gradcheck(seeded(f), inputs) and gradgradcheck(seeded(f), inputs)


def test_the_long_way_has_the_same_gradients(device):
    """torch.ops.twinops, by PyTorch's registration of gradients, beside the short way of eager mode."""
    x, bias = _double(3, 5, device=device), _double(5, device=device)
    residual, added = _double(3, 5, device=device), _double(5, device=device)
    seed = torch.full((), 11, dtype=torch.int64, device=device)
    cases = [
        (lambda x, m: ops.softmax(x, m, scale=0.7), (x, added)),
        (lambda x, m, b: ops.softmax(x, m, bias=b), (x, added, bias)),
        (lambda x, m: ops.log_softmax(x, m, axis=0), (x, added)),
        (lambda x: ops.dropout(x, seed, p=0.3)[0], (x,)),
        (lambda x: ops.dropout(x, p=0.3, seed=3, mask_type="uint32")[0], (x,)),
        (lambda x, b, r: ops.bias_dropout_residual(x, b, r, p=0.3, seed=3)[0], (x, bias, residual)),
        (lambda x: ops.softmax_dropout(x, p=0.3, seed=3, probabilities_type="same")[0], (x,)),
        (lambda x: ops.random_projection(x, k=4, seed=3), (x,)),
    ]
    for f, inputs in cases:
        assert gradcheck(f, inputs) and gradgradcheck(f, inputs)
    torch.manual_seed(5)
    short = F.bias_dropout_residual(x, bias, residual, 0.3)
    torch.manual_seed(5)
    seed = torch.empty((), dtype=torch.int64).random_()
    long = ops.bias_dropout_residual(x, bias, residual, seed.to(device), p=0.3)[0]
    assert_same_bits(short, long)
    g = torch.randn_like(short)
    for a, b in zip(*(torch.autograd.grad(y, (x, bias, residual), g) for y in (short, long))):
        assert_same_bits(a, b)


def test_what_has_no_gradient_is_refused_or_marked():
    x = torch.randn(4, 8, requires_grad=True)
    y, mask = F.bitmask_dropout(x, 0.5)
    assert y.requires_grad and not mask.requires_grad
    tangent = torch.ones(4, 8)
    for f in (lambda x: F.softmax(x, -1), F.dropout, F.softmax_dropout, F.bias_dropout_residual):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x.detach(), tangent)
            with pytest.raises(NotImplementedError, match="no forward-mode gradients"):
                f(dual)
        with pytest.raises(NotImplementedError, match="no forward-mode gradients"):
            torch.func.jvp(f, (x.detach(),), (tangent,))
    leaf = torch.randn(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        F.dropout(leaf, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z = x * 1
        w = (z * z).sum()
        F.dropout(z, 0.5, inplace=True)
        w.backward()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("residual_type", [None, torch.bfloat16, torch.float32], ids=str)
def test_a_bias_under_autocast_is_as_a_linear_layers(residual_type, compiled, device):
    """It becomes the layer's type; a residual of float32 stays what it is, and so does the sum."""
    x = torch.randn(4, 8, device=device)
    layer = torch.nn.Linear(8, 6, bias=False, device=device)
    bias = torch.randn(6, device=device, requires_grad=True)
    residual = None
    if residual_type is not None:
        residual = torch.randn(4, 6, device=device, dtype=residual_type).requires_grad_()
    module = tt.BiasDropoutResidual(0.5)
    run = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
    with torch.autocast(device, torch.bfloat16):
        torch.manual_seed(3)
        y = run(layer(x), bias, residual)
        h = layer(x).detach()
    wide = residual_type or torch.bfloat16
    own = bias.detach().to(wide).requires_grad_()
    torch.manual_seed(3)
    expected = module(h.to(wide), own, residual)
    assert_same_bits(y, expected)
    for result in (expected, y):
        result.float().square().sum().backward()
    assert_same_bits(bias.grad, own.grad.float())
    assert layer.weight.grad.dtype == torch.float32
    assert residual is None or residual.grad.dtype == residual_type
    with pytest.raises(RuntimeError, match="bias: expected the type of x"):
        module(h, bias)
    with torch.autocast(device, torch.bfloat16), pytest.raises(RuntimeError, match="expected the type of x"):
        module(h, bias.double())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types_under_a_gpus_autocast_are_pytorchs(dtype):
    """Of tensors without memory, so that no GPU is needed."""
    functions = {
        "softmax": lambda m, x: m.softmax(x, -1),
        "log_softmax": lambda m, x: m.log_softmax(x, -1),
        "softmin": lambda m, x: m.softmin(x, -1),
        "softmax to float16": lambda m, x: m.softmax(x, -1, dtype=torch.float16),
        "dropout": lambda m, x: m.dropout(x),
    }
    before = torch.is_autocast_enabled("cuda")
    with FakeTensorMode():
        x = torch.empty(4, 8, dtype=dtype, device="cuda")
        try:
            torch.set_autocast_enabled("cuda", True)
            for name, f in functions.items():
                assert f(F, x).dtype == f(NN, x).dtype, name
            assert F.softmax_dropout(x).dtype == NN.softmax(x, -1).dtype
        finally:
            torch.set_autocast_enabled("cuda", before)


def test_dims_of_other_integers():
    x = torch.randn(3, 4)
    assert_same_bits(F.softmax(x, np.int64(0)), F.softmax(x, 0))
    assert_same_bits(F.log_softmax(x, torch.tensor(1)), F.log_softmax(x, 1))


def test_a_bias_of_softmax_dropout_without_a_gradient(device):
    x = torch.randn(6, 6, device=device)
    bias = torch.zeros(6, device=device).index_fill(0, torch.tensor([2, 4], device=device), -torch.inf)
    for leaf in (x, x.clone().requires_grad_()):
        y = seeded(lambda x: F.softmax_dropout(x, 0.5, bias=bias))(leaf)
        assert_same_bits(y, seeded(lambda x: F.dropout(F.softmax(x, -1, bias=bias), 0.5))(leaf))


def test_modules(device):
    x = torch.randn(4, 5, 6, device=device)
    pairs = [
        (tt.Softmax(-1), lambda x: F.softmax(x, -1)),
        (tt.LogSoftmax(1), lambda x: F.log_softmax(x, 1)),
        (tt.Softmax2d(), lambda x: F.softmax(x, -3)),
        (tt.Dropout(0.3), lambda x: F.dropout(x, 0.3)),
        (tt.Dropout1d(0.3), lambda x: F.dropout1d(x, 0.3)),
        (tt.SoftmaxDropout(0.3), lambda x: F.dropout(F.softmax(x, -1), 0.3)),
        (tt.BiasDropoutResidual(0.3), lambda x: F.dropout(x, 0.3)),
    ]
    for module, function in pairs:
        assert_same_bits(seeded(module)(x), seeded(function)(x))
        assert not list(module.parameters()) and not module.state_dict()
    assert repr(tt.Dropout(0.3)) == "Dropout(p=0.3, inplace=False)"
    assert tt.Dropout(0.3).eval()(x) is x
    assert repr(tt.SoftmaxDropout(0.3)) == "SoftmaxDropout(p=0.3, dim=-1)"


def test_channels_last_is_kept(device):
    x = torch.randn(2, 3, 4, 5, device=device).contiguous(memory_format=torch.channels_last)
    assert F.dropout2d(x).is_contiguous(memory_format=torch.channels_last)
    y = F.bias_dropout_residual(x.requires_grad_(), torch.ones(5, device=device, requires_grad=True), None, 0.5)
    y.sum().backward()  # the sums want a gradient without gaps
    assert x.grad.shape == x.shape


def test_bits_do_not_depend_on_the_device():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.randn(33, 257).to(dtype)
        for f in (
            lambda x: F.softmax(x, -1), lambda x: F.log_softmax(x, 0), lambda x: F.dropout(x),
            lambda x: F.softmax_dropout(x, 0.1, causal=True), lambda x: F.bias_dropout_residual(x, x[0], x, 0.1),
        ):
            here, there = (t.clone().requires_grad_() for t in (x, x.cuda()))
            a, b = seeded(f)(here), seeded(f)(there)
            assert_same_bits(a, b)
            g = torch.randn(a.shape).to(dtype)
            a.backward(g)
            b.backward(g.cuda())
            assert_same_bits(here.grad, there.grad)
