"""GradScaler beside PyTorch's: the same steps, states that go both ways, one launch for all types."""

import pytest
import torch
from core import assert_same_bits

import twinops.torch as tt
from twinops.torch import _lists

_Theirs = torch.amp.GradScaler
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _types_of_both(device):
    """Types that PyTorch's scaler takes as well: on a GPU it does not unscale bfloat16 (2.11)."""
    return (torch.float32, torch.bfloat16 if device == "cpu" else torch.float32)


def _parameters(device, types=TYPES):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(5, 3, device=device).to(t)) for t in types]


def _train(scaler, device, types=(torch.float32, torch.bfloat16), steps=6, infinite=(2,), **optimizer):
    parameters = _parameters(device, types)
    sgd = torch.optim.SGD(parameters, 0.1, momentum=0.9, **optimizer)
    scales = []
    for step in range(steps):
        sgd.zero_grad()
        loss = sum((p.float() * (step + 1)).square().sum() for p in parameters)
        scaler.scale(loss).backward()
        if step in infinite:
            parameters[-1].grad[1, 1] = torch.inf
        scaler.step(sgd)
        scaler.update()
        scales.append(scaler.get_scale())
    return parameters, scales


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
def test_steps_are_pytorchs(options, device):
    types = (torch.float32, torch.float32) if options.get("fused") else _types_of_both(device)
    made = {}
    for name, kind in (("ours", tt.GradScaler), ("theirs", _Theirs)):
        scaler = kind(device, init_scale=2.0**10, growth_interval=2)
        made[name] = _train(scaler, device, types, **options)
    assert made["ours"][1] == made["theirs"][1] and len(set(made["ours"][1])) > 1
    for a, b in zip(made["ours"][0], made["theirs"][0]):
        assert_same_bits(a, b)


def test_types_are_mixed_in_one_call(device, monkeypatch):
    parameters = _parameters(device)
    optimizer = torch.optim.SGD(parameters, 0.1)
    scaler = tt.GradScaler(device, init_scale=8.0)
    scaler.scale(torch.zeros((), device=device))  # makes the scale
    for p in parameters:
        p.grad = torch.full_like(p, 24.0)
    with torch.profiler.profile() as profile:
        found = scaler._check(optimizer, scaler._scale, allow_fp16=True)
    names = [e.key for e in profile.key_averages() if e.key.startswith("twinops::") and "(" not in e.key]
    assert names == ["twinops::check_finite_and_unscale_"]
    assert profile.key_averages()[[e.key for e in profile.key_averages()].index(names[0])].count == 1
    assert all((p.grad == 3).all() for p in parameters)
    assert [f.item() for f in found.values()] == [0.0]
    parameters[1].grad[0, 0] = torch.nan
    assert scaler._check(optimizer, scaler._scale, True).popitem()[1].item() == 1.0


def test_what_pytorch_refuses(device):
    parameters = _parameters(device, [torch.float16])
    optimizer = torch.optim.SGD(parameters, 0.1)
    scaler = tt.GradScaler(device)
    scaler.scale(torch.zeros((), device=device))
    parameters[0].grad = torch.ones_like(parameters[0])
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients."):
        scaler.unscale_(optimizer)
    (wide,) = _parameters(device, [torch.float32])
    optimizer = torch.optim.SGD([wide], 0.1)
    wide.grad = torch.ones_like(wide)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscale_.. has already been called"):
        scaler.unscale_(optimizer)


def test_states_go_both_ways(device):
    ours, theirs = (kind(device, init_scale=64.0, growth_interval=3) for kind in (tt.GradScaler, _Theirs))
    for scaler in (ours, theirs):
        _train(scaler, device, _types_of_both(device), steps=4, infinite=(1,))
    assert ours.state_dict() == theirs.state_dict()
    swapped = tt.GradScaler(device), _Theirs(device)
    swapped[0].load_state_dict(theirs.state_dict())
    swapped[1].load_state_dict(ours.state_dict())
    results = [_train(scaler, device, _types_of_both(device), steps=3, infinite=()) for scaler in swapped]
    assert results[0][1] == results[1][1]


def test_gradients_count_as_changed(device):
    (p,) = _parameters(device, [torch.float32])
    optimizer = torch.optim.SGD([p], 0.1)
    scaler = tt.GradScaler(device)
    scaler.scale(torch.zeros((), device=device))
    p.grad = torch.ones_like(p)
    before = p.grad._version
    scaler.unscale_(optimizer)
    assert p.grad._version > before


def test_gradients_that_share_memory_are_refused(device):
    a, b = (torch.nn.Parameter(torch.zeros(3, device=device)) for _ in range(2))
    a.grad = b.grad = torch.ones(3, device=device)
    scaler = tt.GradScaler(device, init_scale=2.0)
    scaler.scale(torch.tensor(1.0, device=device))
    with pytest.raises(RuntimeError, match="shares memory"):
        scaler.unscale_(torch.optim.SGD([a, b], 1.0))
    assert a.grad.eq(1).all()


def test_sparse_gradients():
    p = torch.nn.Parameter(torch.zeros(4, 2))
    optimizer = torch.optim.SGD([p], 0.1)
    scaler = tt.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.zeros(()))
    p.grad = torch.sparse_coo_tensor([[0, 2, 0]], torch.full((3, 2), 8.0), (4, 2))
    scaler.unscale_(optimizer)
    assert p.grad.to_dense().tolist() == [[4, 4], [0, 0], [2, 2], [0, 0]]


def test_disabled_and_without_gradients(device):
    off = tt.GradScaler(device, enabled=False)
    x = torch.ones(3, device=device)
    assert off.scale(x) is x and off.get_scale() == 1.0 and off.state_dict() == {}
    scaler = tt.GradScaler(device)
    parameters = _parameters(device, [torch.float32])
    scaler.scale(torch.zeros((), device=device))
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.step(torch.optim.SGD(parameters, 0.1))


# ---- The way past PyTorch's dispatcher ---------------------------------------------------------------


def _gradients(device):
    gradients = [torch.randn(shape, device=device).to(t) for t in TYPES for shape in ([], [0], [7], [3, 5])]
    return [*gradients, torch.randn(6, 4, device=device).t(), torch.randn(9, device=device)[::3]]


def test_the_short_way_has_the_bits_of_the_operator(device):
    short = _gradients(device)
    through = [g.clone() for g in short]
    scale = torch.tensor(3.0, device=device)
    found = [torch.zeros((), device=device) for _ in range(2)]
    for value in (0.0, torch.inf):
        short[2][3] = through[2][3] = value
        versions = [g._version for g in short]
        assert _lists.unscale_(short, scale, found[0])
        torch.ops.twinops.check_finite_and_unscale_(through, scale, found[1])
        for a, b in zip([*short, found[0]], [*through, found[1]]):
            assert_same_bits(a, b)
        assert [g._version for g in short] == [v + 1 for v in versions]
    assert found[0].item() == 1.0


class _Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize("kind", ["subclass", "sparse", "meta", "float16", "tuple", "none", "mode", "empty"])
def test_what_is_not_for_the_short_way_is_left_alone(kind, device):
    plain = torch.full([4], 8.0, device=device)
    gradients = {
        "subclass": [plain, torch.ones(3, device=device).as_subclass(_Subclass)],
        "sparse": [plain, torch.eye(3, device=device).to_sparse()],
        "meta": [plain, torch.ones(3, device="meta")],
        "float16": [plain, torch.ones(3, device=device, dtype=torch.float16)],
        "tuple": (plain,),
        "none": [plain, None],
        "empty": [],
    }.get(kind, [plain])
    scale, found = torch.full((), 4.0, device=device), torch.zeros((), device=device)
    if kind == "mode":
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False):
            assert not _lists.unscale_(gradients, scale, found)
    else:
        assert not _lists.unscale_(gradients, scale, found, allow_fp16=kind != "float16")
    assert (plain == 8).all()


def test_the_short_way_refuses_as_the_operator_does(device):
    x = torch.ones(8, device=device)
    with pytest.raises(RuntimeError, match="shares memory") as refused:
        _lists.unscale_([x[:5], x[3:]], torch.ones((), device=device), torch.zeros((), device=device))
    with pytest.raises(RuntimeError) as wanted:
        found = torch.zeros((), device=device)
        torch.ops.twinops.check_finite_and_unscale_([x[:5], x[3:]], torch.ones((), device=device), found)
    assert str(refused.value) in str(wanted.value) and (x == 1).all()
