"""Shards: 1, 2 and 4 processes give the numbers of the whole tensor, to the bit; and agree on found_inf.
On GPUs by NCCL, as many processes as there are GPUs; else by gloo."""

import os
import sys
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from core import assert_same_bits, seeded

import twinops.torch as tt
from twinops.torch import functional as F

WORLDS = [2, 4]


def _enter(rank, world, store, body, device_type, path):
    sys.path[:] = path
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a machine may have no other network
    device = torch.device(device_type, rank) if device_type == "cuda" else torch.device("cpu")
    if device_type == "cuda":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    backend = "nccl" if device_type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    try:
        torch.manual_seed(3)
        body(rank, world, device)
    finally:
        dist.destroy_process_group()


def _run(body, world):
    device_type = "cuda" if torch.cuda.device_count() >= world else "cpu"
    if not dist.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    fork = device_type == "cpu" and not torch.cuda.is_initialized()
    for attempt in range(3):  # on a busy machine Gloo's processes now and then fail to connect
        with tempfile.TemporaryDirectory() as folder:
            arguments = (world, os.path.join(folder, "store"), body, device_type, sys.path)
            try:
                return mp.start_processes(
                    _enter, arguments, nprocs=world, start_method="fork" if fork else "spawn"
                )
            except mp.ProcessRaisedException as error:
                if "connectFullMesh" not in str(error) or attempt == 2:
                    raise


def _parts(rank, world, device):
    """Plain sharded code: global_shape and start."""
    whole = torch.randn(8, 12, 6)
    expected = seeded(F.dropout)(whole, 0.3)
    size = 12 // world
    part = slice(rank * size, (rank + 1) * size)
    mine = whole[:, part].to(device)
    given = seeded(F.dropout)(mine, 0.3, global_shape=whole.shape, start=(0, rank * size, 0))
    assert_same_bits(given.cpu(), expected[:, part])


def _dtensors(rank, world, device):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

    shape = (2, world // 2) if world == 4 else (world,)
    mesh = init_device_mesh(device.type, shape)
    whole = torch.randn(8, 12, 6)
    bias = torch.randn(6)
    choices = [Shard(0), Shard(1), Shard(2), Replicate()]
    placements = [[p] for p in choices] if len(shape) == 1 else [
        [Shard(0), Shard(1)], [Replicate(), Shard(2)], [Shard(1), Shard(1)], [Shard(2), Shard(0)],
    ]
    cases = [
        lambda x, b: F.dropout(x, 0.3),
        lambda x, b: F.softmax(x, -1),
        lambda x, b: F.log_softmax(x, 1),
        lambda x, b: F.softmax(x, -1, causal=True),
        lambda x, b: F.softmax_dropout(x, 0.3),
        lambda x, b: F.bias_dropout_residual(x, b, x, 0.3),
        lambda x, b: F.random_projection(x, 5, 7),
        lambda x, b: F.dropout(x * 1, 0.3, inplace=True),
    ]
    for case in cases:
        one, b = whole.clone().requires_grad_(), bias.clone().requires_grad_()
        expected = seeded(case)(one, b)
        g = torch.randn_like(expected)
        expected.backward(g)
        for placement in placements:
            x = distribute_tensor(whole.to(device), mesh, placement).requires_grad_()
            d = distribute_tensor(bias.to(device), mesh, [Replicate()] * mesh.ndim).requires_grad_()
            y = seeded(case)(x, d)
            assert y.shape == expected.shape
            assert_same_bits(y.full_tensor().cpu(), expected)
            y.backward(distribute_tensor(g.to(device), mesh, y.placements))
            assert_same_bits(x.grad.full_tensor().cpu(), one.grad)
            if b.grad is not None:  # a sum over ranks, in another order
                torch.testing.assert_close(d.grad.full_tensor().cpu(), b.grad)
    local = torch.full((4, 4), 1.0, device=device)
    pending = DTensor.from_local(local, mesh, [Partial()] * mesh.ndim)
    assert set(seeded(F.dropout)(pending, 0.5).full_tensor().unique().tolist()) <= {0.0, 2.0 * world}
    for refused in (lambda: F.softmax(x, -1, mask=whole), lambda: F.bitmask_dropout(x)):
        with pytest.raises(NotImplementedError, match="to_local()"):
            refused()


def _found_inf(rank, world, device):
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    def scaled(p, **options):
        scaler = tt.GradScaler(device.type, init_scale=8.0, **options)
        scaler.scale(torch.zeros((), device=device))
        optimizer = torch.optim.SGD([p], 0.1)
        scaler.unscale_(optimizer)
        states = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return [f.item() for f in states.values()]

    p = torch.nn.Parameter(torch.ones(4, device=device))
    p.grad = torch.full_like(p, 8.0)
    if rank == world - 1:
        p.grad[1] = torch.inf
    assert scaled(p, process_group=dist.group.WORLD) == [1.0]
    mesh = init_device_mesh(device.type, (world,))
    p = torch.nn.Parameter(distribute_tensor(torch.ones(8, 4, device=device), mesh, [Shard(0)]))
    for last, found in ((8.0, 0.0), (torch.nan, 1.0)):
        gradient = torch.full((8, 4), 8.0)
        gradient[7, 3] = last  # on the last rank
        p.grad = distribute_tensor(gradient.to(device), mesh, [Shard(0)])
        assert scaled(p) == [found]
        assert p.grad.full_tensor()[0, 0].item() == 1.0


def _fsdp2(rank, world, device):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import init_device_mesh

    def losses(shard):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), tt.Dropout(0.5), torch.nn.Linear(8, 8))
        model = model.to(device)
        if shard:
            fully_shard(model, mesh=init_device_mesh(device.type, (world,)))
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        scaler = tt.GradScaler(device.type, init_scale=16.0)
        torch.manual_seed(1)
        x = torch.randn(4, 8).to(device)
        made = []
        for _ in range(3):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            made.append(loss.item())
        return made

    torch.testing.assert_close(torch.tensor(losses(True)), torch.tensor(losses(False)))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("body", [_parts, _dtensors, _found_inf], ids=lambda f: f.__name__.strip("_"))
def test_ranks_agree_with_the_whole(body, world):
    _run(body, world)


def test_fsdp2_trains_as_one_process():
    _run(_fsdp2, 2)


@pytest.mark.parametrize("parts, rows", [(2, 8192), (8, 8192), (4, 4096)])
def test_a_bias_gradient_cut_at_powers_of_two_chunks_has_the_same_bits(parts, rows):
    """Each part is a subtree of the one order of sums, of 1024 rows or a power of two times as many."""
    dy = torch.randn(rows, 24)

    def gradient(dy, start):
        bias = torch.zeros(24, requires_grad=True)
        x = torch.zeros_like(dy)
        shard = dict(global_shape=(rows, 24), start=(start, 0))
        seeded(F.bias_dropout_residual)(x, bias, x, 0.25, **shard).backward(dy)
        return bias.grad

    size = rows // parts
    found = [gradient(dy[i : i + size], i) for i in range(0, rows, size)]
    while len(found) > 1:
        found = [a + b for a, b in zip(found[::2], found[1::2])]
    assert_same_bits(found[0], gradient(dy, 0))
