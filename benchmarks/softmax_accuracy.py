#!/usr/bin/env python3
"""How far softmax and log_softmax in float32 are from the exact values, in units of the last place.

usage: softmax_accuracy.py [--library build/release/libtwinops.so] [--rows N]

Prints a Markdown table: largest and mean error over rows of several lengths and spreads, for
twinops on the CPU and, where it is installed, for PyTorch on the CPU and on a GPU. "Exact" is
computed in double, its sum without rounding (math.fsum). Python's standard library is all it needs.
"""
import argparse
import array
import ctypes
import math
import random

from peers import LIBRARY, Call, view

try:
    import torch
except ImportError:
    torch = None


def twinops_row(library, op, x):
    """One row through the C ABI."""
    y = array.array("f", bytes(4 * len(x)))
    row = lambda values: view(values.buffer_info()[0], (2, 32), (len(values),))
    Call(library, op, {"x": row(x), "out": row(y)})()
    return y


def torch_row(device, op, x):
    t = torch.tensor(x, dtype=torch.float32, device=device)
    return getattr(torch, op)(t, -1).cpu().tolist()


def exact_row(op, x):
    top = max(x)
    total = math.fsum(math.exp(v - top) for v in x)
    if op == "softmax":
        return [math.exp(v - top) / total for v in x]
    log_total = math.log(total)
    return [v - top - log_total for v in x]


def error(actual, exact):
    """In units of the last place that float32 has at the exact value."""
    if exact == 0:
        return abs(actual) / 2.0 ** -149
    return abs(actual - exact) / 2.0 ** max(math.frexp(exact)[1] - 24, -149)


SPREADS = {
    "normal, 1": lambda r: r.gauss(0, 1),
    "normal, 10": lambda r: r.gauss(0, 10),
    "between 0 and 1": lambda r: r.random(),
    "logits": lambda r: 12 * (2 * r.random() - 1) ** 3,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--rows", type=int, default=4, help="rows of each kind")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    peers = {"twinops": lambda op, x: twinops_row(library, op, x)}
    if torch is not None:
        peers[f"PyTorch {torch.__version__}, CPU"] = lambda op, x: torch_row("cpu", op, x)
        if torch.cuda.is_available():
            peers["PyTorch, GPU"] = lambda op, x: torch_row("cuda", op, x)
    print("| operator | columns | values | " + " | ".join(f"{p}: largest / mean" for p in peers) + " |")
    print("|---" * (3 + len(peers)) + "|")
    for op in ("softmax", "log_softmax"):
        for columns in (64, 1000, 4096, 50257, 262144):
            for name, draw in SPREADS.items():
                generator = random.Random(f"{op} {columns} {name}")
                worst, total, count = dict.fromkeys(peers, 0.0), dict.fromkeys(peers, 0.0), 0
                for _ in range(max(1, min(options.rows, 2 ** 19 // columns))):
                    x = array.array("f", (draw(generator) for _ in range(columns)))
                    exact = exact_row(op, x)
                    count += columns
                    for peer, run in peers.items():
                        errors = [error(a, e) for a, e in zip(run(op, x), exact)]
                        worst[peer] = max(worst[peer], max(errors))
                        total[peer] += sum(errors)
                cells = " | ".join(f"{worst[p]:.2f} / {total[p] / count:.3f}" for p in peers)
                print(f"| {op} | {columns} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
