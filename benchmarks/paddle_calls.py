"""What a call under PaddlePaddle costs, and what it leaves to the call after it. With the Python that
has Paddle and twinops:

    python benchmarks/paddle_calls.py small     # microseconds of the processor's time of a small call
    OMP_NUM_THREADS=2 python benchmarks/paddle_calls.py after    # milliseconds of softmax of 1024 x 1024,
                                                                 # and of a matmul right after it

Paddle's and twinops' calls take turns, so that what else the machine does meets both.
"""

import statistics
import sys
import time

import paddle

import twinops.paddle as tp

OURS, PADDLES = tp.functional, paddle.nn.functional


def microseconds(f, calls=300):
    begin = time.process_time()
    for _ in range(calls):
        f()
    return (time.process_time() - begin) / calls * 1e6


def small():
    x, t, dy = (paddle.rand([8, 16]) for _ in range(3))
    t.stop_gradient = False
    kinds = {
        "softmax of 8 x 16": lambda F: F.softmax(x),
        "softmax of 8 x 16, forward and backward": lambda F: F.softmax(t).backward(dy),
        "dropout of 8 x 16": lambda F: F.dropout(x, 0.5),
        "dropout of 8 x 16, forward and backward": lambda F: F.dropout(t, 0.5).backward(dy),
    }
    for name, call in kinds.items():
        times = {F: [] for F in (PADDLES, OURS)}
        for turn in range(15):
            for F, found in times.items():
                time_of_turn = microseconds(lambda F=F: call(F))
                if turn:  # the first warms up
                    found.append(time_of_turn)
        paddles, ours = (statistics.median(found) for found in times.values())
        print(f"{name}: Paddle {paddles:.1f} us, twinops {ours:.1f} us, {ours / paddles:.1f} times")


def after(turns=40):
    x, a = paddle.rand([1024, 1024]), paddle.rand([1024, 1024])
    softmaxes = {"nothing": lambda x: x, "Paddle": PADDLES.softmax, "twinops": OURS.softmax}
    times = {name: [] for name in softmaxes}
    for turn in range(turns + 1):
        for name, softmax in softmaxes.items():
            for _ in range(3):  # its threads are awake, as in a model
                begin = time.perf_counter()
                softmax(x)
                between = time.perf_counter()
                paddle.matmul(a, a)
                end = time.perf_counter()
            if turn:
                times[name].append((between - begin, end - between))
    for name, found in times.items():
        first, then = (statistics.median(t) * 1e3 for t in zip(*found))
        print(f"{name}: softmax {first:.2f} ms, the matmul after it {then:.2f} ms")


{"small": small, "after": after}[sys.argv[1]]()
