#!/usr/bin/env python3
"""Two builds of libtwinops.so by turns on the CPU: whether a change made the softmax family, or
check_finite_and_unscale, faster, and that it left every bit as it was. It needs nothing but Python.

  git worktree add ../before COMMIT; build it there as here; then
  python3 benchmarks/before_and_now.py ../before/build/release/libtwinops.so
      [--now build/release/libtwinops.so] [--operators softmax,...] [--types float32,...]
      [--columns 64,...] [--elements 65536,...] [--inner 1,...] [--threads 1]
      [--lists 300x1024,300x1024+64,...]

A figure is the tenth percentile of many turns. --types float32,bfloat16:float32,...: the second
reads bfloat16 and writes float32. --inner n, n > 1: the rows lie along axis 1 of
[rows / n, columns, n]. --lists: check_finite_and_unscale alone, in place, on so many tensors of so
many elements, one behind the other or so many bytes apart. Exit status 1 where a bit differs.
"""
import argparse
import ctypes
import itertools
import os
import random
import struct
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
from twinops._call import Call, view  # noqa: E402

# DLPack's code and bits.
TYPES = {"float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32), "float64": (2, 64)}
OPERATORS = ["softmax", "log_softmax", "softmax_grad", "log_softmax_grad"]
LINE = 64


class Tensor:
    """Elements from a line on, in memory of its own."""

    def __init__(self, kind, shape):
        count = 1
        for size in shape:
            count *= size
        self.bytes = count * TYPES[kind][1] // 8
        self.memory = (ctypes.c_char * (self.bytes + LINE))()
        address = ctypes.addressof(self.memory)
        self.address = address + -address % LINE
        self.view = view(self.address, TYPES[kind], shape)

    def fill(self, kind, spread):
        """Normal deviates, the same after every 8191 of them."""
        numbers = [random.gauss(0, spread) for _ in range(8191)]
        if kind == "bfloat16":
            piece = b"".join(struct.pack("<f", n)[2:] for n in numbers)
        else:
            code = {"float16": "e", "float32": "f", "float64": "d"}[kind]
            piece = struct.pack(f"<{len(numbers)}{code}", *numbers)
        for at in range(0, self.bytes, len(piece)):
            ctypes.memmove(self.address + at, piece, min(len(piece), self.bytes - at))
        return self

    def equals(self, other):
        compare = ctypes.CDLL(None).memcmp
        compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        return compare(self.address, other.address, self.bytes) == 0


class List(Tensor):
    """Tensors in one piece of memory, `gap` bytes between two."""

    def __init__(self, kind, members, elements, gap):
        size = TYPES[kind][1] // 8
        super().__init__(kind, (members * (elements + gap // size),))
        self.views = [view(self.address + i * (elements * size + gap), TYPES[kind], (elements,))
                      for i in range(members)]


def turns(calls, seconds):
    """The tenth percentile of each call's time, in microseconds."""
    times, spent = [[] for _ in calls], 0.0
    while spent < seconds or len(times[0]) < 3:
        for call, of in zip(calls, times):
            begin = time.perf_counter()
            call()
            of.append(time.perf_counter() - begin)
            spent += of[-1]
    return [sorted(of)[len(of) // 10] * 1e6 for of in times]


def compare(libraries, op, kind, columns, elements, inner, options):
    """One line; whether the bits are equal. kind: "float32", or "float16:float32" into another."""
    label = kind
    kind, _, to_kind = kind.partition(":")
    to_kind = to_kind or kind
    rows = elements // columns
    shape = (rows, columns) if inner == 1 else (max(1, rows // inner), columns, inner)
    attributes = dict(axis=1)
    x = Tensor(kind, shape).fill(kind, 4)
    inputs, result = dict(x=x), "out"
    if op.endswith("_grad"):
        y = Tensor(kind, shape)
        Call(libraries[0], op[:-5], dict(x=x.view, out=y.view), attributes)()
        inputs, result = dict(y=y, dy=Tensor(kind, shape).fill(kind, 1)), "dx"
    results = [Tensor(to_kind, shape) for _ in libraries]
    calls = [Call(library, op, {name: t.view for name, t in {**inputs, result: to}.items()},
                  attributes, threads=options.threads)
             for library, to in zip(libraries, results)]
    times = turns(calls, options.seconds)
    return report(label, "x".join(map(str, shape)), op, times, results)


def compare_lists(libraries, kind, text, options):
    """The same of a list, "300x1024+64": divided by 1, so that turns change nothing, then by
    2/3: times 1.5 many are ties."""
    shape, _, gap = text.partition("+")
    members, elements = map(int, shape.split("x"))
    results = [List(kind, members, elements, int(gap or 0)) for _ in libraries]
    results[0].fill(kind, 1)
    ctypes.memmove(results[1].address, results[0].address, results[0].bytes)
    divisor, flag = (ctypes.c_float * 1)(1), (ctypes.c_float * 1)()
    scale, found = (view(ctypes.addressof(one), TYPES["float32"], ()) for one in (divisor, flag))
    calls = [Call(library, "check_finite_and_unscale",
                  dict(x=to.views, scale=scale, out=to.views, found_inf=found),
                  threads=options.threads)
             for library, to in zip(libraries, results)]
    times = turns(calls, options.seconds)
    divisor[0] = 2 / 3
    for call in calls:
        call()
    return report(kind, text, "unscale", times, results)


def report(kind, what, op, times, results):
    before, now = times
    equal = results[0].equals(results[1])
    print(f"{kind:16} {what:18} {op:17} {before:10.1f} {now:10.1f} us "
          f"{before / now:6.2f}{'' if equal else '  BITS DIFFER'}", flush=True)
    return equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("--now", default=os.path.join(ROOT, "build", "release", "libtwinops.so"))
    parser.add_argument("--operators", default=",".join(OPERATORS))
    parser.add_argument("--types", default="float32,bfloat16")
    parser.add_argument("--columns", default="10,64,256,1000,4096,65536")
    parser.add_argument("--elements", default="65536,8388608")
    parser.add_argument("--inner", default="1", help="neighbouring rows that lie side by side")
    parser.add_argument("--lists", help="members x elements [+ bytes of a gap]")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each line")
    options = parser.parse_args()
    libraries = [ctypes.CDLL(os.path.abspath(path)) for path in (options.before, options.now)]
    print(f"{'type':16} {'shape':18} {'operator':17} {'before':>10} {'now':>10}     ratio")
    if options.lists:
        sys.exit(0 if all([compare_lists(libraries, kind, text, options)
                           for kind in options.types.split(",")
                           for text in options.lists.split(",")]) else 1)
    numbers = ([int(n) for n in text.split(",")]
               for text in (options.elements, options.columns, options.inner))
    equal = True
    for kind, elements, columns, inner, op in itertools.product(options.types.split(","), *numbers,
                                                                options.operators.split(",")):
        equal &= compare(libraries, op, kind, columns, elements, inner, options)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
