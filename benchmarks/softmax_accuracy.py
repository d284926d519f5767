#!/usr/bin/env python3
"""How far softmax and log_softmax are from the exact values, in units of the last place.

usage: softmax_accuracy.py [--library build/release/libtwinops.so] [--rows N]
                           [--type float32 | float16 | bfloat16]

Prints a Markdown table: largest and mean error over rows of several lengths and spreads, for
twinops on the CPU and, where it is installed, for PyTorch on the CPU and on a GPU. "Exact" is
computed in double, its sum without rounding (math.fsum). Python's standard library is all it needs.
"""
import argparse
import array
import ctypes
import math
import random
import struct

from peers import LIBRARY, Call, view

try:
    import torch
except ImportError:
    torch = None


class Type:
    """An element type: its code and bits in DLPack, its significand's bits, its least number's
    exponent, and how a list of numbers is stored in it."""

    def __init__(self, dlpack, significand, least):
        self.dlpack, self.significand, self.least = dlpack, significand, least

    def stored(self, numbers):
        if self.dlpack == (2, 16):
            return array.array("H", struct.pack(f"{len(numbers)}e", *numbers))
        floats = array.array("f", numbers)
        if self.dlpack == (2, 32):
            return floats
        bits = array.array("I", floats.tobytes())  # bfloat16: rounded to nearest even
        return array.array("H", ((b + 0x7fff + (b >> 16 & 1)) >> 16 for b in bits))

    def numbers(self, stored):
        if self.dlpack == (2, 16):
            return struct.unpack(f"{len(stored)}e", stored.tobytes())
        if self.dlpack == (2, 32):
            return stored.tolist()
        return array.array("f", array.array("I", (b << 16 for b in stored)).tobytes()).tolist()

    def error(self, actual, exact):
        """In units of the last place that the type has at the exact value."""
        exponent = math.frexp(exact)[1] - self.significand if exact else self.least
        return abs(actual - exact) / 2.0 ** max(exponent, self.least)


TYPES = {"float32": Type((2, 32), 24, -149), "float16": Type((2, 16), 11, -24),
         "bfloat16": Type((4, 16), 8, -133)}


def twinops_row(library, kind, op, x):
    """One row through the C ABI."""
    y = array.array(x.typecode, bytes(x.itemsize * len(x)))
    row = lambda values: view(values.buffer_info()[0], kind.dlpack, (len(values),))
    Call(library, op, {"x": row(x), "out": row(y)})()
    return kind.numbers(y)


def torch_row(device, name, op, numbers):
    t = torch.tensor(numbers, dtype=getattr(torch, name), device=device)
    return getattr(torch, op)(t, -1).double().cpu().tolist()


def exact_row(op, x):
    top = max(x)
    total = math.fsum(math.exp(v - top) for v in x)
    if op == "softmax":
        return [math.exp(v - top) / total for v in x]
    log_total = math.log(total)
    return [v - top - log_total for v in x]


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
    parser.add_argument("--type", default="float32", choices=TYPES)
    options = parser.parse_args()
    kind = TYPES[options.type]
    library = ctypes.CDLL(options.library)
    peers = {"twinops": lambda op, x: twinops_row(library, kind, op, x)}
    if torch is not None:
        peers[f"PyTorch {torch.__version__}, CPU"] = (
            lambda op, x: torch_row("cpu", options.type, op, kind.numbers(x)))
        if torch.cuda.is_available():
            peers["PyTorch, GPU"] = (
                lambda op, x: torch_row("cuda", options.type, op, kind.numbers(x)))
    print("| operator | columns | values | " + " | ".join(f"{p}: largest / mean" for p in peers) + " |")
    print("|---" * (3 + len(peers)) + "|")
    for op in ("softmax", "log_softmax"):
        for columns in (64, 1000, 4096, 50257, 262144):
            for name, draw in SPREADS.items():
                generator = random.Random(f"{op} {columns} {name}")
                worst, total, count = dict.fromkeys(peers, 0.0), dict.fromkeys(peers, 0.0), 0
                for _ in range(max(1, min(options.rows, 2 ** 19 // columns))):
                    x = kind.stored([draw(generator) for _ in range(columns)])
                    exact = exact_row(op, kind.numbers(x))
                    count += columns
                    for peer, run in peers.items():
                        errors = [kind.error(a, e) for a, e in zip(run(op, x), exact)]
                        worst[peer] = max(worst[peer], max(errors))
                        total[peer] += sum(errors)
                digits = 2 if options.type == "float32" else 4
                cells = " | ".join(
                    f"{worst[p]:.{digits}f} / {total[p] / count:.{digits + 1}f}" for p in peers)
                print(f"| {op} | {columns} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
