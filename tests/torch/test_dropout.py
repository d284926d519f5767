"""Dropout and dropout of channels: what is dropped, in place, and what is kept for the gradient."""

import pytest
import torch
from core import assert_same_bits, seeded

import twinops.torch as tt
from twinops.torch import functional as F

NN = torch.nn.functional


def test_dropout_keeps_and_scales(device):
    x = torch.randn(1000, device=device)
    y, mask = F.bitmask_dropout(x, 0.25)
    words = mask.cpu().numpy().view("uint32")
    kept = torch.tensor([(int(words[e // 32]) >> (e % 32)) & 1 for e in range(1000)], device=device)
    assert 650 < kept.sum() < 850
    torch.testing.assert_close(y, x * kept / 0.75)
    assert F.dropout(x, 0.5, training=False) is x and F.dropout(x, 0.0) is x
    assert (F.dropout(x, 1.0) == 0).all()
    z = x.clone()
    assert F.dropout(z, 0.5, inplace=True) is z and (z == 0).any()


@pytest.mark.parametrize("f, shape, inner", [
    (F.dropout1d, (6, 7, 5), 1), (F.dropout2d, (6, 7, 5, 3), 2), (F.dropout3d, (6, 7, 5, 3, 2), 3),
    (F.dropout1d, (42, 5), 1), (F.dropout3d, (42, 5, 3, 2), 3),
])
def test_whole_channels_are_dropped(f, shape, inner, device):
    y = f(torch.ones(shape, device=device), 0.5).flatten(-inner)
    assert ((y == 0).all(-1) | (y == 2).all(-1)).all()
    assert (y == 0).any() and (y == 2).any()


@pytest.mark.filterwarnings("ignore:dropout[23]d. Received a")
@pytest.mark.parametrize("shape", [(40, 3), (5, 6, 7), (3, 4, 5, 2, 2), (2, 3, 4, 5, 2, 2)])
@pytest.mark.parametrize("name", ["dropout2d", "dropout3d"])
def test_channels_of_other_dimensions_are_pytorchs(name, shape):
    """Which elements fall together, also under patch(), where PyTorch's own is ours."""
    def groups(f):
        y = torch.stack([f(torch.ones(shape), 0.5).flatten() for _ in range(40)], 1)
        return (y[:, None] == y[None]).all(-1)  # elements that fell together forty times

    with tt.patched():
        assert torch.equal(groups(getattr(F, name)), groups(getattr(torch.nn.functional, name)))
    assert torch.equal(groups(getattr(F, name)), groups(getattr(torch.nn.functional, name)))


def _in_place(f, x, no_grad):
    """What a call in place did: is it x that comes back, versions, shape; or the refusal."""
    shape, before, version = x.shape, x.detach().clone(), x._version
    try:
        with torch.set_grad_enabled(not no_grad):
            y = f(x, 0.5, True, True)
    except RuntimeError as error:
        assert x.shape == shape and torch.equal(x, before)  # nothing has been written
        return str(error).split(".")[0]
    return y is x, x._version > version, y.shape, y.requires_grad, type(y)


_TENSORS = {
    "plain": lambda x: x,
    "leaf": lambda x: x.requires_grad_(),
    "parameter": torch.nn.Parameter,
    "view of a leaf": lambda x: x.requires_grad_()[:],
    "computed": lambda x: x.requires_grad_() * 1,
    "view of what is computed": lambda x: (x.requires_grad_() * 1)[:],
    "one of many views": lambda x: x.requires_grad_().expand(2, *x.shape).clone().unbind()[0],
    "view made without gradients": lambda x: torch.no_grad()(lambda y: y[:])(x.requires_grad_() * 1),
}


@pytest.mark.filterwarnings("ignore:dropout[23]d. Received a")
@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize("kind", _TENSORS)
@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "dropout3d"])
def test_in_place_is_pytorchs(name, kind, no_grad, device):
    for shape in ((6, 5), (6, 5, 4), (2, 6, 5, 4), (2, 3, 4, 5, 4)):
        if name == "dropout1d" and len(shape) > 3:
            continue
        x, z = (_TENSORS[kind](torch.ones(shape, device=device)) for _ in range(2))
        given = _in_place(getattr(F, name), x, no_grad)
        assert given == _in_place(getattr(NN, name), z, no_grad), shape
        if given[0] is True:
            assert set(x.detach().flatten().tolist()) <= {0.0, 2.0}


def test_in_place_of_an_inference_tensor_is_refused():
    with torch.inference_mode():
        x = torch.ones(64)
        assert F.dropout(x, 0.5, inplace=True) is x and (x == 0).any()
    for f in (F.dropout, NN.dropout):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            f(x, 0.5, inplace=True)


@pytest.mark.filterwarnings("ignore:dropout[23]d. Received a")
def test_what_drops_no_channels_takes_any_dimensions():
    x = torch.ones(5)
    for f in (F.dropout2d, F.dropout3d):
        assert torch.equal(f(x, 0.5, False), x) and torch.equal(f(x, 0.0), x) and (f(x, 1.0) == 0).all()


def test_a_refused_input_keeps_its_shape():
    x = torch.ones(())
    with pytest.warns(UserWarning, match="dropout3d: Received a 0-D"), pytest.raises(RuntimeError):
        F.dropout3d(x, 0.5, inplace=True)
    assert x.shape == ()


def test_a_cpu_keeps_the_mask_and_a_gpu_draws_it_again(device):
    x = torch.randn(3, 50, device=device, requires_grad=True)
    kept = [] if device == "cuda" else [(torch.int32, (5,))]
    for y in (F.dropout(x, 0.5), F.dropout(x, 0.5, generator=torch.Generator())):
        assert [(t.dtype, t.shape) for t in y.grad_fn.saved_tensors if t is not None] == kept
    y = F.softmax_dropout(x, 0.5)
    assert [(t.dtype, t.shape) for t in y.grad_fn.saved_tensors[1:] if t is not None] == kept


def test_a_part_drops_what_the_whole_drops(device):
    x = torch.randn(8, 6, device=device)
    whole = seeded(lambda: F.dropout(x))()
    part = seeded(lambda: F.dropout(x[2:5], global_shape=(8, 6), start=(2, 0)))()
    assert_same_bits(part, whole[2:5])
