"""What a call of a small NumPy array costs, in microseconds of the host: twinops' functions of arrays,
and the core alone, called by ctypes with everything made before. Run with the package installed:

    python benchmarks/arrays_calls.py
"""

import time

import numpy as np

import twinops
from twinops._call import Call, view
from twinops._native import library

SHAPE = (4, 8)


def microseconds(call, calls=2000, rounds=15):
    """The best round's time of a call: other processes only add to it."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


def core(op, x, out):
    float32 = (2, 32)
    views = {
        "x": view(x.ctypes.data, float32, x.shape),
        "out" if op == "softmax" else "y": view(out.ctypes.data, float32, x.shape),
    }
    return Call(library(), op, views)


def main():
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    out = np.empty_like(x)
    mask = np.empty(1, "uint32")
    rows = {
        "softmax, the core alone": core("softmax", x, out),
        "softmax": lambda: twinops.softmax(x),
        "softmax, output given": lambda: twinops.softmax(x, out=out),
        "dropout, the core alone": core("dropout", x, out),
        "dropout with its mask": lambda: twinops.dropout(x, p=0.1, seed=7),
        "dropout, outputs given": lambda: twinops.dropout(x, p=0.1, seed=7, y=out, mask=mask),
        "softmax_grad": lambda: twinops.softmax_grad(x, out),
    }
    print(f"a call of {SHAPE[0]} x {SHAPE[1]} float32   us")
    for name, call in rows.items():
        print(f"{name:26} {microseconds(call):5.1f}")


main()
