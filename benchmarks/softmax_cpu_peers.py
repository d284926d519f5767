#!/usr/bin/env python3
"""The softmax family on the CPU beside PyTorch's, with as many threads, in one process.

  OMP_NUM_THREADS=1 python3 benchmarks/softmax_cpu_peers.py
      [--library build/release/libtwinops.so | --plugin]
      [--types float32,...] [--columns 64,...] [--elements 65536,...] [--inner 1,...]

The two take turns, so that what else the machine does hits both; a figure is the least of many
turns. PyTorch writes into a tensor that is there, as twinops does. Results are compared in double
before they are timed. --inner n, n > 1: the rows lie along axis 1 of [rows / n, columns, n].
--plugin: PyTorch's operators with the kernels of the twinops that is installed under them, and with
their own, on PyTorch's threads and into new tensors; a library's own threads wait on the cores that
PyTorch's need. New tensors of 32 MiB and more cost more than what is computed.
"""
import argparse
import contextlib
import itertools
import json
import os
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402

ATEN = torch.ops.aten


def calls(op, axis, x, y, dy, dx):
    """PyTorch's forward and backward pass of `op`."""
    forward, backward = getattr(ATEN, "_" + op).out, getattr(ATEN, f"_{op}_backward_data").out
    target = dict(grad_input=dx) if op == "softmax" else dict(out=dx)
    return (lambda: forward(x, axis, False, out=y),
            lambda: backward(dy, y, axis, x.dtype, **target))


class Plugin:
    """PyTorch's own operators, with the kernels that twinops.torch.override() puts under them. They make
    their results."""

    def __init__(self):
        import twinops.torch

        self.override = twinops.torch.override

    def call(self, op, attributes, **tensors):
        name, axis = op.removesuffix("_grad"), attributes["axis"]
        if name == op:
            return lambda: getattr(ATEN, "_" + op).default(tensors["x"], axis, False)
        y, dy = tensors["y"], tensors["dy"]
        return lambda: getattr(ATEN, f"_{name}_backward_data").default(dy, y, axis, y.dtype)

    def turns(self, f, _, seconds=1.0):
        """The least time of f under override() and outside it, in microseconds."""
        least, end = [1e9, 1e9], time.perf_counter() + seconds
        while time.perf_counter() < end:
            for k, around in enumerate((self.override, contextlib.nullcontext)):
                with around():
                    f()
                    least[k] = min(least[k], *(time_of(f) for _ in range(20)))
        return least[0] * 1e6, least[1] * 1e6


def calls_of(path):
    import peers  # it finds the sources of twinops, which Plugin must not

    return peers.Twinops(path or peers.LIBRARY)


def time_of(f):
    begin = time.perf_counter()
    f()
    return time.perf_counter() - begin


def turns(ours, theirs, seconds=0.5):
    """The least time of each, in microseconds."""
    least, spent = [1e9, 1e9], 0.0
    while spent < seconds:
        for k, f in enumerate((ours, theirs)):
            t = time_of(f)
            least[k] = min(least[k], t)
            spent += t
    return least[0] * 1e6, least[1] * 1e6


def compare(ours, dtype, columns, elements, inner, as_json):
    rows = elements // columns
    shape = (rows, columns) if inner == 1 else (max(1, rows // inner), columns, inner)
    axis = -1 if inner == 1 else 1
    x, dy = torch.randn(shape, dtype=dtype) * 4, torch.randn(shape, dtype=dtype)
    y, dx, peer_y, peer_dx = (torch.empty_like(x) for _ in range(4))
    name = "x".join(map(str, shape))
    for op in ("softmax", "log_softmax"):
        mine = (ours.call(op, dict(axis=axis), x=x, out=y),
                ours.call(op + "_grad", dict(axis=axis), y=peer_y, dy=dy, dx=dx))
        others = calls(op, axis, x, peer_y, dy, peer_dx)
        for what, f, peer, out, other in zip((op, op + "_grad"), mine, others, (y, dx),
                                             (peer_y, peer_dx)):
            peer()
            if isinstance(ours, Plugin):
                with ours.override():
                    out = f()
            else:
                f()
            error = (out.double() - other.double()).abs().max().item()
            bound = 2e-2 if dtype.itemsize == 2 else 1e-4
            if not error < bound * max(1.0, other.double().abs().max().item()):
                print(f"{what} of {name} is wrong by {error}")
            t, other_t = (ours.turns if isinstance(ours, Plugin) else turns)(f, peer)
            if as_json:
                print(json.dumps(dict(type=str(dtype)[6:], columns=columns, elements=elements,
                                      inner=inner, what=what, us=round(t, 1),
                                      peer_us=round(other_t, 1), ratio=round(other_t / t, 3))),
                      flush=True)
                continue
            print(f"{str(dtype)[6:]:9} {name:16} {what:17} {t:10.1f} {other_t:10.1f} us "
                  f"{other_t / t:6.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library")
    parser.add_argument("--plugin", action="store_true", help="by twinops.torch.override()")
    parser.add_argument("--types", default="float32,bfloat16")
    parser.add_argument("--columns", default="10,64,256,1000,4096,65536")
    parser.add_argument("--elements", default="65536,8388608")
    parser.add_argument("--inner", default="1", help="neighbouring rows that lie side by side")
    parser.add_argument("--json", action="store_true", help="a line of JSON a figure: record.py")
    options = parser.parse_args()
    ours = Plugin() if options.plugin else calls_of(options.library)
    print(f"{'type':9} {'shape':16} {'operator':17} {'twinops':>10} {'PyTorch':>10}    ratio")
    numbers = ([int(n) for n in text.split(",")]
               for text in (options.columns, options.elements, options.inner))
    for dtype, (columns, elements, inner) in itertools.product(options.types.split(","),
                                                               itertools.product(*numbers)):
        compare(ours, getattr(torch, dtype), columns, elements, inner, options.json)


if __name__ == "__main__":
    main()
