"""What a call under PaddlePaddle costs, and what it leaves to the call after it. With the Python that
has Paddle and twinops:

    python benchmarks/paddle_calls.py small     # microseconds of the processor's time of a small call
    OMP_NUM_THREADS=2 python benchmarks/paddle_calls.py after    # milliseconds of softmax of 1024 x 1024,
                                                                 # and of a matmul right after it
    OMP_NUM_THREADS=2 python benchmarks/paddle_calls.py step     # milliseconds of a training step of an
                                                                 # encoder; with `step 1` one process
                                                                 # beside it keeps a core busy

Paddle's and twinops' calls take turns, so that what else the machine does meets both.
"""

import contextlib
import statistics
import subprocess
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


class _Busy:
    """Processes that do nothing but keep a core busy."""

    def __init__(self, count):
        self.spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.spinning:
            process.kill()
            process.wait()


def _step():
    """A step of a small encoder with dropout, attention written out."""
    paddle.seed(1)
    layer = paddle.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1)
    model = paddle.nn.TransformerEncoder(layer, 2)
    optimizer = paddle.optimizer.AdamW(1e-4, parameters=model.parameters())
    x = paddle.rand([8, 64, 128])

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()

    return step


def step(busy=0, turns=20):
    step, times = _step(), {"Paddle": [], "twinops": []}
    with _Busy(int(busy)):
        for turn in range(turns + 1):
            for name, found in times.items():
                with tp.patched() if name == "twinops" else contextlib.nullcontext():
                    for _ in range(2):  # threads are awake, as in training
                        begin = time.perf_counter()
                        step()
                        taken = time.perf_counter() - begin
                if turn:
                    found.append(taken * 1e3)
    paddles, ours = times["Paddle"], times["twinops"]
    print(f"{busy} busy processes: a step takes Paddle {statistics.median(paddles):.1f} ms, twinops "
          f"{statistics.median(ours):.1f}, {statistics.median(ours) / statistics.median(paddles):.2f} times; "
          f"the quickest {min(paddles):.1f} and {min(ours):.1f}, {min(ours) / min(paddles):.2f} times")


{"small": small, "after": after, "step": step}[sys.argv[1]](*sys.argv[2:])
