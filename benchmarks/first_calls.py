#!/usr/bin/env python3
"""What a process pays once: opening libtwinops.so, and the first call of each operator.

  python3 benchmarks/first_calls.py [--library build/release/libtwinops.so] [--gpu]

Each operator is called in a process of its own, on 4 x 64 float32 elements: milliseconds of the first
call and of the second, both up to their results. The first call on a GPU makes the context, which the
line `context` shows alone (an allocation), and unpacks the operator's kernels. Python's standard
library is all this needs.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
from twinops._call import CPU, CUDA, Call, Device, view  # noqa: E402

FLOAT32, SHAPE = (2, 32), (4, 64)
OPERATORS = {
    "softmax": ("x", "out"),
    "log_softmax": ("x", "out"),
    "softmax_grad": ("y", "dy", "dx"),
    "log_softmax_grad": ("y", "dy", "dx"),
    "dropout": ("x", "y"),
    "dropout_grad": ("dy", "dx"),
    "bias_dropout_residual": ("x", "y"),
    "uniform": ("out",),
    "check_finite_and_unscale": ("x", "scale", "out", "found_inf"),
}


def milliseconds(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def one(path, name, gpu):
    """Prints how long opening, the context, and two calls of an operator take."""
    begin = time.perf_counter()
    library = ctypes.CDLL(path)
    opening = (time.perf_counter() - begin) * 1e3
    device = Device(CUDA if gpu else CPU, 0)

    def allocate():
        memory = ctypes.c_void_p()
        if library.twinops_allocate(device, ctypes.c_size_t(4096), ctypes.byref(memory)) != 0:
            library.twinops_last_error.restype = ctypes.c_char_p
            sys.exit(library.twinops_last_error().decode())
        return memory.value

    context = milliseconds(allocate)
    shapes = {argument: () if argument in ("scale", "found_inf") else SHAPE
              for argument in OPERATORS[name]}
    call = Call(library, name, {argument: view(allocate(), FLOAT32, shape, device=(device.type, 0))
                                for argument, shape in shapes.items()})

    def finished():
        call()
        library.twinops_synchronize(device)

    print(f"{name:26} {opening:8.2f} {context:9.2f} {milliseconds(finished):11.2f} "
          f"{milliseconds(finished):8.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "release", "libtwinops.so"))
    parser.add_argument("--gpu", action="store_true", help="on GPU 0")
    parser.add_argument("--operator", choices=OPERATORS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.operator:
        return one(options.library, options.operator, options.gpu)
    print(f"{'ms':26} {'opening':>8} {'context':>9} {'first call':>11} {'second':>8}", flush=True)
    for name in OPERATORS:
        subprocess.run([sys.executable, *sys.argv, "--operator", name], check=True)


if __name__ == "__main__":
    main()
