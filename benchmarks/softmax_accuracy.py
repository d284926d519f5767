#!/usr/bin/env python3
"""How far softmax and log_softmax in float32 are from the exact values, in units of the last place.

usage: softmax_accuracy.py libtwinops.so [--rows N]

Prints a Markdown table: largest and mean error over rows of several lengths and spreads, for
twinops on the CPU and, where it is installed, for PyTorch on the CPU and on a GPU. "Exact" is
computed in double, its sum without rounding (math.fsum). Python's standard library is all it needs.
"""
import argparse
import array
import ctypes
import math
import random

try:
    import torch
except ImportError:
    torch = None


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Argument(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("tensors", ctypes.POINTER(ctypes.POINTER(DLTensor))), ("count", ctypes.c_size_t)]


def view(values):
    shape = (ctypes.c_int64 * 1)(len(values))
    tensor = DLTensor(values.buffer_info()[0], (ctypes.c_int32 * 2)(1, 0), 1, 2, 32, 1, shape, None, 0)
    return ctypes.pointer(ctypes.pointer(tensor)), (shape, tensor)


def twinops_row(library, op, x):
    """One row through the C ABI."""
    y = array.array("f", bytes(4 * len(x)))
    (x_view, keep_x), (y_view, keep_y) = view(x), view(y)
    arguments = (Argument * 2)(Argument(ctypes.sizeof(Argument), b"x", x_view, 1),
                               Argument(ctypes.sizeof(Argument), b"out", y_view, 1))
    if library.twinops_run(op.encode(), arguments, ctypes.c_size_t(2), None, ctypes.c_size_t(0), None):
        raise RuntimeError(library.twinops_last_error().decode())
    del keep_x, keep_y
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
    parser.add_argument("library")
    parser.add_argument("--rows", type=int, default=4, help="rows of each kind")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    library.twinops_last_error.restype = ctypes.c_char_p
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
