"""The random state: whatever keeps and puts back PyTorch's does so for twinops."""

import copy
import pickle

import pytest
import torch
from core import assert_same_bits
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import twinops.torch as tt
from twinops.torch import functional as F


def _draw(device="cpu", generator=None):
    return F.dropout(torch.ones(64, device=device), generator=generator)


def test_manual_seed_begins_anew(device):
    torch.manual_seed(3)
    a, b = _draw(device), _draw(device)
    torch.manual_seed(3)
    assert_same_bits(_draw(device), a)
    assert_same_bits(_draw(device), b)
    assert not torch.equal(a, b)
    torch.manual_seed(4)
    assert not torch.equal(_draw(device), a)


def test_a_tensor_without_memory_draws_nothing():
    x = torch.empty(4, 8, 5, device="meta")
    state = torch.get_rng_state()
    for f in (F.dropout, F.dropout1d, F.dropout2d, F.bitmask_dropout, F.softmax_dropout, F.bias_dropout_residual):
        f(x)
    assert F.dropout(x, inplace=True) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_the_masks_of_a_seed_are_these():
    """A change of these bits is a new version of the contract, and breaks what people have recorded."""
    torch.manual_seed(2)
    kept = (F.dropout(torch.ones(16), 0.5) != 0).int().tolist()
    assert kept == EXPECTED
    torch.manual_seed(2)
    seed = torch.empty((), dtype=torch.int64).random_().item()
    kept = (torch.ops.twinops.dropout(torch.ones(16), p=0.5, seed=seed)[0] != 0).int().tolist()
    assert kept == EXPECTED


EXPECTED = [0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1]


def test_the_mask_is_the_same_on_every_device():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    torch.manual_seed(3)
    here = [_draw("cpu") for _ in range(3)]
    torch.manual_seed(3)
    torch.rand(5, device="cuda")  # what the GPU's generator does is another matter
    for x in here:
        assert_same_bits(_draw("cuda"), x)


def test_states_are_kept_and_put_back(device):
    state = torch.get_rng_state()
    a = _draw(device)
    torch.set_rng_state(state)
    assert_same_bits(_draw(device), a)
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        b = _draw(device)
    assert torch.equal(torch.get_rng_state(), state)
    assert_same_bits(_draw(device), b)


def test_a_generator_of_its_own(device):
    state = torch.get_rng_state()
    g = torch.Generator().manual_seed(5)
    a, b = _draw(device, g), _draw(device, g)
    assert torch.equal(torch.get_rng_state(), state) and not torch.equal(a, b)
    assert_same_bits(_draw(device, torch.Generator().manual_seed(5)), a)
    module = tt.Dropout(generator=torch.Generator().manual_seed(5))
    assert_same_bits(module(torch.ones(64, device=device)), a)
    if device == "cuda":
        g = torch.Generator("cuda").manual_seed(5)
        a, b = _draw(device, g), _draw(device, g)
        assert not torch.equal(a, b)
        assert_same_bits(_draw(device, g.manual_seed(5)), a)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("mask", [None, "bits"])
def test_checkpointing_drops_the_same_again(reentrant, mask, device):
    x = torch.randn(32, 32, device=device, requires_grad=True)

    def block(x):
        return F.softmax_dropout(F.dropout(x, 0.5, mask=mask) * 2, 0.3, dropout_mask=mask)

    torch.manual_seed(3)
    plain = block(block(x))
    (expected,) = torch.autograd.grad(plain.sum(), x)
    torch.manual_seed(3)
    again = checkpoint(block, checkpoint(block, x, use_reentrant=reentrant), use_reentrant=reentrant)
    assert_same_bits(again, plain)
    again.sum().backward()
    assert_same_bits(x.grad, expected)


class _Drawn(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return F.dropout(torch.ones(64))


def test_workers_draw_their_own():
    def masks():
        torch.manual_seed(3)
        loader = DataLoader(_Drawn(), batch_size=1, num_workers=2, multiprocessing_context="fork")
        return list(loader)

    a, b = masks(), masks()
    for x, y in zip(a, b):
        assert_same_bits(x, y)
    assert not torch.equal(a[0], a[1]) and not torch.equal(a[0], a[2])


def test_modules_are_copied_and_pickled():
    model = torch.nn.Sequential(tt.Dropout(0.3), tt.Softmax(-1))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        x = torch.randn(4, 8)
        torch.manual_seed(3)
        a = model(x)
        torch.manual_seed(3)
        assert_same_bits(other(x), a)


def test_a_run_is_resumed():
    """A checkpoint with PyTorch's own random state is enough."""

    def step(model, optimizer, x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    def new():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), tt.Dropout(0.5), torch.nn.Linear(8, 8))
        return model, torch.optim.SGD(model.parameters(), 0.01)

    x = torch.randn(4, 8)
    model, optimizer = new()
    step(model, optimizer, x)
    saved = {"model": copy.deepcopy(model.state_dict()), "random": torch.get_rng_state()}
    step(model, optimizer, x)
    other, optimizer = new()
    other.load_state_dict(saved["model"])
    torch.set_rng_state(saved["random"])
    step(other, optimizer, x)
    for a, b in zip(model.parameters(), other.parameters()):
        assert_same_bits(a, b)


def test_a_captured_graph_draws_anew():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x = torch.ones(256, device="cuda", requires_grad=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        F.dropout(x).sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    x.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = F.dropout(x)
        (dx,) = torch.autograd.grad(y.sum(), x)

    def replay():
        graph.replay()
        assert_same_bits(y.detach(), dx)  # the backward pass draws what the forward pass drew
        return y.detach().clone()

    torch.manual_seed(3)
    a, b = replay(), replay()
    assert not torch.equal(a, b)
    torch.manual_seed(3)
    assert_same_bits(replay(), a)


def test_a_side_stream(device):
    if device == "cpu":
        pytest.skip("needs a GPU")
    x = torch.randn(4096, 1024, device=device)
    expected = F.softmax(x, -1)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        z = x * 1  # behind the sleep: a call on another stream would read it before
        y = F.softmax(z, -1)
    stream.synchronize()
    assert_same_bits(y, expected)
