"""A BERT-like encoder, forward and backward, with PyTorch's own operators and with twinops': time and peak
memory of a step.

usage: python benchmarks/torch_bert.py [--layers 24] [--hidden 1024] [--heads 16] [--shapes 16x512,8x1024]
           [--steps 8] [--no-compile | --cuda-graphs | --override] [--kernels]

bfloat16, random weights, dropout 0.1. Attention is written out (scores, softmax, dropout, product) or
scaled_dot_product_attention with its own dropout; each in eager mode, and then under torch.compile, or
with --cuda-graphs as one graph of mode="reduce-overhead" alone (six layers take minutes to compile). With
--override the blocks are PyTorch's for both, in eager mode, and twinops' column is under override(). The
variants take turns, a step each, and the median step of each counts. --kernels: of one step more, how
long the GPU's kernels run, and those of twinops among them; and how long copies take that move as many
bytes of scores as softmax_dropout and its gradient at least (six times those of a layer). Without a GPU
it runs on the CPU, which shows that it runs and measures no memory.
"""

import argparse
import contextlib
import statistics
import time

import torch
from torch import nn

import twinops.torch as tt

NN = nn.functional
P = 0.1


class Block(nn.Module):
    def __init__(self, hidden, heads, ours, written_out, p=P):
        super().__init__()
        self.heads, self.ours, self.written_out, self.p = heads, ours, written_out, p
        self.qkv = nn.Linear(hidden, 3 * hidden)
        # twinops adds the bias in the pass that drops and adds the residual.
        self.out, self.down = (nn.Linear(n, hidden, bias=not ours) for n in (hidden, 4 * hidden))
        self.up = nn.Linear(hidden, 4 * hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        if ours:
            self.biases = nn.ParameterList([torch.zeros(hidden), torch.zeros(hidden)])

    def attention(self, q, k, v):
        if not self.written_out:
            return NN.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        scores = q @ k.transpose(-2, -1)
        scale = q.size(-1) ** -0.5
        if self.ours:
            return tt.functional.softmax_dropout(scores, self.p, scale=scale) @ v
        return NN.dropout(torch.softmax(scores * scale, -1), self.p) @ v

    def add(self, x, residual, i):
        if self.ours:
            return tt.functional.bias_dropout_residual(x, self.biases[i], residual, self.p)
        return NN.dropout(x, self.p) + residual

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = self.attention(*qkv).transpose(1, 2).reshape(batch, length, hidden)
        x = self.first(self.add(self.out(y), x, 0))
        return self.second(self.add(self.down(NN.gelu(self.up(x))), x, 1))


def agree(device):
    """Refuses to time blocks that do not compute the same; without dropout, whose masks differ."""
    for written_out in (True, False):
        theirs, ours = (Block(64, 4, kind, written_out, p=0.0).to(device) for kind in (False, True))
        known = theirs.state_dict()
        for i, name in enumerate(("out", "down")):
            known[f"biases.{i}"] = known.pop(f"{name}.bias")
        ours.load_state_dict(known)
        x = torch.randn(2, 16, 64, device=device)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-3, atol=1e-3)


def model_of(options, ours, written_out, compiled):
    torch.manual_seed(0)
    blocks = [Block(options.hidden, options.heads, ours, written_out) for _ in range(options.layers)]
    if compiled and not options.cuda_graphs:  # one block is compiled, and all use it
        for block in blocks:
            block.compile()
    model = nn.Sequential(*blocks).to(options.device, torch.bfloat16)
    if options.cuda_graphs:
        model.compile(mode="reduce-overhead")
    return model


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def step(model, x, device):
    """(milliseconds, GiB at the peak) of forward and backward. Its gradients are gone afterwards."""
    wait(device)
    torch.compiler.cudagraph_mark_step_begin()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    model(x).sum().backward()
    wait(device)
    elapsed = (time.perf_counter() - begin) * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    model.zero_grad(set_to_none=True)
    return elapsed, peak


def kernels(model, x):
    """(milliseconds of all kernels of a step, of those of twinops)."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        step(model, x, x.device.type)
    times = [(event.key, event.self_device_time_total / 1e3) for event in seen.key_averages()]
    return sum(t for _, t in times), sum(t for name, t in times if "twinops" in name)


def copies(options, shape):
    """Milliseconds of copies of the scores of all layers, three a layer."""
    batch, length = shape
    scores = torch.randn(batch, options.heads, length, length, device="cuda", dtype=torch.bfloat16)
    to = torch.empty_like(scores)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):  # the first is not counted
        begin.record()
        for _ in range(3 * options.layers):
            to.copy_(scores)
        end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def compare(options, shape, written_out, compiled):
    """([PyTorch's, twinops' median step], [their peaks], [what kernels gives of each, if it is asked for])."""
    torch._dynamo.reset()
    x = torch.randn(*shape, options.hidden, device=options.device, dtype=torch.bfloat16)
    own_blocks = not options.override
    models = [model_of(options, ours, written_out, compiled) for ours in (False, own_blocks)]
    around = [contextlib.nullcontext, tt.override if options.override else contextlib.nullcontext]
    other = sum(p.nbytes for p in models[0].parameters()) / 2**30  # the model that waits
    times, peaks = [[], []], [0.0, 0.0]
    first = 4 if options.cuda_graphs else 2  # a CUDA graph is recorded in the second step
    for i in range(options.steps + first):
        for kind in (0, 1):
            with around[kind]():
                elapsed, peak = step(models[kind], x, options.device)
            if i >= first:
                times[kind].append(elapsed)
                peaks[kind] = max(0.0, peak - other)
    inside = []
    if options.kernels and options.device == "cuda":
        for kind in (0, 1):
            with around[kind]():
                inside.append(kernels(models[kind], x))
    return [statistics.median(t) for t in times], peaks, inside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("layers", 24), ("hidden", 1024), ("heads", 16), ("steps", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--shapes", default="16x512,8x1024", help="batch x length")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--cuda-graphs", action="store_true")
    parser.add_argument("--override", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    agree(options.device)
    print(f"PyTorch {torch.__version__}, {name}; {options.layers} layers of {options.hidden}, bfloat16")
    print(f"{'':44}{'PyTorch':>18}{'twinops':>18}{'time':>7}{'memory':>8}")
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    modes = (False,) if options.no_compile or options.override else (True,) if options.cuda_graphs else (False, True)
    for compiled in modes:
        for written_out in (True, False):
            for shape in shapes:
                times, peaks, inside = compare(options, shape, written_out, compiled)
                what = "written out" if written_out else "scaled_dot_product_attention"
                what += f", {shape[0]} x {shape[1]}" + (", compiled" if compiled else "")
                cells = [f"{t:8.1f} ms{p:7.2f}" for t, p in zip(times, peaks)]
                memory = f"{peaks[1] / peaks[0]:8.2f}" if peaks[0] else ""
                print(f"{what:44}{cells[0]:>18}{cells[1]:>18}{times[1] / times[0]:7.2f}{memory}", flush=True)
                for whose, (time_of_all, of_twinops) in zip(("PyTorch", "twinops"), inside):
                    print(f"  {whose}: kernels {time_of_all:.1f} ms, of twinops {of_twinops:.1f}", flush=True)
                if inside and written_out:
                    print(f"  copies of the scores {copies(options, shape):.1f} ms", flush=True)
    print("memory: GiB at the peak of a step")


if __name__ == "__main__":
    main()
