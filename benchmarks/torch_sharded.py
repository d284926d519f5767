"""A transformer block with dropout over several ranks: whether the masks and the losses are those of one
rank, and the time of a training step beside PyTorch's own operators.

usage: python benchmarks/torch_sharded.py [--ranks 1,2,4,8] [--batch 4] [--length 512] [--hidden 1024]
           [--heads 16] [--steps 8] [--dtype float32]

Attention's heads and the wide layer are cut over the ranks (tensor parallel), and the sequence where
residuals are added (sequence parallel), all as DTensors. A GPU a rank by NCCL where there are enough,
else processes on the CPU by Gloo, a thread each. A line is a number of ranks:
  masks    what dropout drops is what one rank drops, cut along each of these axes
  loss     the losses of all steps have one rank's bits where only twinops' operators are cut, and the
           rest of the block is computed whole by each rank
  apart    the greatest relative distance of a loss from one rank's where everything is cut: products
           that are added up over ranks round otherwise
  ours, pytorch   milliseconds of a step, all cut, median
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

import twinops.torch as tt

NN = torch.nn.functional
P = 0.1
RATE = 0.01  # of learning


def softmax_dropout(ours, scores, scale):
    if ours:
        return tt.functional.softmax_dropout(scores, P, scale=scale)
    return NN.dropout(torch.softmax(scores * scale, -1), P)


def dropout(ours, x):
    return tt.functional.dropout(x, P) if ours else NN.dropout(x, P)


class Block:
    """Its weights are cut, or whole on every rank; `residual` is the placement of the sequence."""

    def __init__(self, options, mesh, cut):
        self.options, self.mesh, self.cut = options, mesh, cut
        hidden, wide = options.hidden, 4 * options.hidden
        columns, rows = (Shard(1), Shard(0)) if cut else (Replicate(), Replicate())
        make = torch.Generator().manual_seed(0)

        def weight(n, m, placement):
            values = torch.randn(n, m, generator=make) * n**-0.5
            values = values.to(mesh.device_type, getattr(torch, options.dtype))
            return distribute_tensor(values, mesh, [placement]).requires_grad_()

        self.q, self.k, self.v = (weight(hidden, hidden, columns) for _ in range(3))
        self.out = weight(hidden, hidden, rows)
        self.up, self.down = weight(hidden, wide, columns), weight(wide, hidden, rows)
        self.weights = [self.q, self.k, self.v, self.out, self.up, self.down]

    def operator(self, f, x, axis):
        """f(x) with x cut along the axis; what comes is whole again where the block's weights are."""
        y = f(x.redistribute(self.mesh, [Shard(axis)]))
        return y if self.cut else y.redistribute(self.mesh, [Replicate()])

    def loss(self, ours, x, target):
        batch, length, hidden = x.shape
        heads = self.options.heads

        def split(w):  # heads first, which are cut
            return (x @ w).view(batch, length, heads, hidden // heads).permute(2, 0, 1, 3)

        def add(y, residual):
            return self.operator(lambda cut: dropout(ours, cut), y, 1) + residual

        whole = [Replicate()]
        scores = split(self.q) @ split(self.k).transpose(-2, -1)
        scale = (hidden // heads) ** -0.5
        p = self.operator(lambda cut: softmax_dropout(ours, cut, scale), scores, 0)
        attended = (p @ split(self.v)).permute(1, 2, 0, 3).reshape(batch, length, hidden)
        begin = x.redistribute(self.mesh, [Shard(1)]) if self.cut else x
        y = NN.layer_norm(add(attended @ self.out, begin), (hidden,))
        wide = NN.gelu(y.redistribute(self.mesh, whole) @ self.up)
        wide = self.operator(lambda cut: dropout(ours, cut), wide, 2)
        z = NN.layer_norm(add(wide @ self.down, y), (hidden,))
        return NN.mse_loss(z.redistribute(self.mesh, whole).float(), target)

    def train(self, ours):
        """Losses and milliseconds of each step."""
        torch.manual_seed(1)
        shape = self.options.batch, self.options.length, self.options.hidden
        x, target = (
            distribute_tensor(torch.randn(shape).to(self.mesh.device_type), self.mesh, [Replicate()])
            for _ in range(2)
        )
        x = x.to(getattr(torch, self.options.dtype))
        losses, times = [], []
        for _ in range(self.options.steps):
            begin = time.perf_counter()
            loss = self.loss(ours, x, target)
            loss.backward()
            with torch.no_grad():
                for w in self.weights:
                    w -= RATE * w.grad
                    w.grad = None
            losses.append(loss.full_tensor().item())  # waits
            times.append(1e3 * (time.perf_counter() - begin))
        return losses, statistics.median(times[1:] or times)


def masks(options, mesh):
    """What dropout drops of a block's tensors, each cut along its axis."""
    batch, length, hidden, heads = options.batch, options.length, options.hidden, options.heads
    cuts = {(heads, batch, length, length): 0, (batch, length, hidden): 1, (batch, length, 4 * hidden): 2}
    kept = []
    for shape, axis in cuts.items():
        torch.manual_seed(5)
        ones = distribute_tensor(torch.ones(shape, device=mesh.device_type), mesh, [Shard(axis)])
        kept.append((tt.functional.dropout(ones, P).full_tensor() != 0).cpu())
    return kept


def rank_main(rank, world, store, path, options, folder):
    sys.path[:] = path
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    on_gpu = torch.cuda.device_count() >= world
    if on_gpu:
        torch.cuda.set_device(rank)
    torch.set_num_threads(1)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    try:
        mesh = init_device_mesh("cuda" if on_gpu else "cpu", (world,))
        found = {"on": backend, "masks": masks(options, mesh)}
        found["whole"], _ = Block(options, mesh, cut=False).train(True)
        found["cut"], found["ours"] = Block(options, mesh, cut=True).train(True)
        _, found["pytorch"] = Block(options, mesh, cut=True).train(False)
        torch.save(found, os.path.join(folder, str(rank)))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(usage=__doc__.partition("usage: ")[2])
    parser.add_argument("--ranks", default="1,2,4,8")
    for name, value in (("batch", 4), ("length", 512), ("hidden", 1024), ("heads", 16), ("steps", 8)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    one = None
    for world in map(int, options.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            arguments = (world, os.path.join(folder, "store"), sys.path, options, folder)
            mp.start_processes(rank_main, arguments, nprocs=world, start_method="spawn")
            ranks = [torch.load(os.path.join(folder, str(rank))) for rank in range(world)]
        one = one or ranks[0]
        found = ranks[0]
        line = {
            "ranks": world,
            "on": found["on"],
            "masks": all(torch.equal(a, b) for r in ranks for a, b in zip(r["masks"], one["masks"])),
            "loss": all(r["whole"] == one["whole"] for r in ranks),
            "apart": max(abs(a / b - 1) for a, b in zip(found["cut"], one["cut"])),
            "ours": round(found["ours"], 2),
            "pytorch": round(found["pytorch"], 2),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
