"""What a call of a small NumPy array costs, in microseconds of the host: twinops' functions of arrays,
and the core alone, called by ctypes with everything made before. Run with the package installed:

    python benchmarks/arrays_calls.py           # a table
    python benchmarks/arrays_calls.py --json    # a line of JSON for each, for benchmarks/record.py
"""

import json
import sys
import time

import numpy as np

import twinops
from twinops._call import Call, view
from twinops._native import library

SHAPE = (4, 8)


def microseconds(call, calls=50, rounds=400):
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


def show(name, time):
    if "--json" in sys.argv:
        print(json.dumps({"call": name, "microseconds": round(time, 1)}))
    else:
        print(f"{name:28} {time:5.1f} us")


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
    for name, call in rows.items():
        show(name, microseconds(call))


main()
